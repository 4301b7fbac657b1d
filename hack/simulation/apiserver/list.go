// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// continuation is where a list goes on that had a limit.
type continuation struct {
	ResourceVersion int64
	After           types.NamespacedName
}

// list returns a list. One that may come from a cache is older than the newest state by a number of changes. The lock is held.
func (s *Server) list(r *Request, resource *Resource, stale int64) (*Object, error) {
	options, err := r.listOptions(true)
	if err != nil {
		return nil, err
	}
	selects, err := r.selector(resource, options)
	if err != nil {
		return nil, err
	}
	from, err := s.listed(options, stale)
	if err != nil {
		return nil, err
	}
	list := unstructured.UnstructuredList{Object: map[string]any{}, Items: []Object{}}
	list.SetGroupVersionKind(resource.Kind.GroupVersion().WithKind(resource.Kind.Kind + "List"))
	list.SetResourceVersion(strconv.FormatInt(from.ResourceVersion, 10))
	after, remaining := from.After, int64(0)
	for _, o := range sorted(s.at(r.Resource, from.ResourceVersion), "") {
		switch {
		case compareKeys(keyOf(o), after) <= 0 || !selects(o):
		case options.Limit > 0 && len(list.Items) == int(options.Limit):
			remaining++
		default:
			list.Items = append(list.Items, *resource.item(o))
			from.After = keyOf(o)
		}
	}
	if remaining > 0 {
		list.SetContinue(base64.RawURLEncoding.EncodeToString(encode(from)))
		if options.LabelSelector.Empty() && options.FieldSelector.Empty() {
			list.SetRemainingItemCount(&remaining)
		}
	}
	return &Object{Object: list.UnstructuredContent()}, nil
}

// item returns an object as it is in a list: that of built-in objects says their kind once.
func (resource *Resource) item(o *Object) *Object {
	if resource.IsCustom {
		return o
	}
	content := maps.Clone(o.Object)
	delete(content, "apiVersion")
	delete(content, "kind")
	return &Object{Object: content}
}

// listed returns the state that is to be listed: that of the resourceVersion stale, if it is not 0, and a cache may serve it.
func (s *Server) listed(options *internalversion.ListOptions, stale int64) (from continuation, err error) {
	from.ResourceVersion = s.resourceVersion
	if options.Continue != "" {
		raw, err := base64.RawURLEncoding.DecodeString(options.Continue)
		if err == nil {
			err = json.Unmarshal(raw, &from)
		}
		if err != nil {
			return from, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
		}
		if v := options.ResourceVersion; v != "" && v != "0" {
			return from, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		return from, s.isKnown(from.ResourceVersion)
	}
	asked, err := parseVersion(options.ResourceVersion)
	switch {
	case err != nil:
		return from, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	case asked > s.resourceVersion:
		return from, s.tooLarge(asked)
	case options.ResourceVersionMatch == metav1.ResourceVersionMatchExact:
		from.ResourceVersion = asked
	case options.ResourceVersion != "" && stale > 0:
		from.ResourceVersion = min(max(stale, s.compacted, asked), s.resourceVersion)
	}
	return from, s.isKnown(from.ResourceVersion)
}

// isKnown returns an error if the state at a resourceVersion is not known any more.
func (s *Server) isKnown(version int64) error {
	if version < s.compacted {
		return apierrors.NewResourceExpired("The provided resource version is too old: it has been compacted.")
	}
	return nil
}

func parseVersion(version string) (int64, error) {
	if version == "" {
		return 0, nil
	}
	parsed, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), version, err.Error())
	}
	return int64(parsed), nil
}

// tooLarge is the error for a resourceVersion that the API server has not seen.
func (s *Server) tooLarge(version int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, s.resourceVersion), 1)
	err.ErrStatus.Code = http.StatusGatewayTimeout
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

func keyOf(o *Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func compareKeys(a, b types.NamespacedName) int {
	return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
}
