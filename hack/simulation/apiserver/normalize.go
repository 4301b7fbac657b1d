// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// normalize makes of an object what the API server decodes: without fields that it does not know, and with defaults. found is what the
// object replaces, or nil.
func (resource *Resource) normalize(r *Request, o, found *Object) error {
	isStrict := r.Query.Get("fieldValidation") == "Strict"
	var into any = &metav1.ObjectMeta{}
	var content map[string]any
	if resource.IsCustom {
		content, _ = o.Object["metadata"].(map[string]any)
	} else {
		into, content = reflect.New(reflect.TypeOf(resource.goType)).Interface(), o.Object
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, into, isStrict); err != nil {
		if r.PatchType != types.StrategicMergePatchType { // The API server decodes all others from JSON.
			err = cmp.Or(utiljson.Unmarshal(encode(content), into), err)
		}
		return resource.decodingError(r, err)
	}
	if !resource.IsCustom {
		defaultBuiltIn(into, found)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !resource.IsCustom {
		o.Object = content
		return nil
	}
	o.Object["metadata"] = content
	pruned := prune(o.Object, resource.Schema, "")
	if isStrict && len(pruned) > 0 {
		return resource.decodingError(r, errors.New(`strict decoding error: unknown field `+`"`+strings.Join(pruned, `", unknown field "`)+`"`))
	}
	applyDefaults(o.Object, resource.Schema)
	return nil
}

// decodingError is the error of an object that does not fit the Go type of its kind.
func (resource *Resource) decodingError(r *Request, err error) error {
	if r.Verb == "patch" && !r.IsApply() {
		return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(r.Body), err.Error())})
	}
	kind := resource.Kind.Kind
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind, resource.Version, kind, err))
}
