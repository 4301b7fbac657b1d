// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// patch applies a patch to the newest state of an object. The lock is held.
func (s *Server) patch(r *Request, resource *Resource, found *Object) (*Object, error) {
	if r.IsApply() {
		return s.apply(r, resource, found)
	}
	patched, err := r.patched(found, resource.goType)
	if err != nil {
		return nil, err
	}
	if kind := patched.GroupVersionKind(); kind != resource.Kind && resource.IsCustom {
		return nil, apierrors.NewInvalid(kind.GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("kind"), kind.Kind, "must be "+resource.Kind.Kind),
		})
	} else if kind != resource.Kind {
		return nil, resource.decodingError(r, fmt.Errorf("the kind is %s", kind))
	}
	return s.update(r, resource, found, patched)
}

// patched returns an object with the patch in the body. goType is the zero value of its Go type, or nil if it has none.
func (r *Request) patched(o *Object, goType any) (*Object, error) {
	if !json.Valid(r.Body) {
		return nil, apierrors.NewBadRequest("the patch is no JSON")
	}
	var patched []byte
	var err error
	switch original := encode(o.Object); {
	case r.PatchType == types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(r.Body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if patched, err = p.Apply(original); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case r.PatchType == types.MergePatchType:
		if err := json.Unmarshal(r.Body, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		patched, err = jsonpatch.MergePatch(original, r.Body)
	case r.PatchType == types.StrategicMergePatchType && goType != nil:
		patched, err = strategicpatch.StrategicMergePatch(original, r.Body, goType)
	default:
		err := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "", 0, false)
		err.ErrStatus.Details = nil
		err.ErrStatus.Message = "the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return decode(patched)
}
