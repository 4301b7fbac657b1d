// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
func (s *Server) list(r *Request, resource *Resource, staleness int64) (*Object, error) {
	selects, err := r.selector(resource)
	if err != nil {
		return nil, err
	}
	from, limit, err := s.listed(r, staleness)
	if err != nil {
		return nil, err
	}
	list := unstructured.UnstructuredList{Object: map[string]any{}, Items: []Object{}}
	list.SetGroupVersionKind(resource.Kind.GroupVersion().WithKind(resource.Kind.Kind + "List"))
	list.SetResourceVersion(strconv.FormatInt(from.ResourceVersion, 10))
	for _, o := range sorted(s.at(r.Resource, from.ResourceVersion), "") {
		key := keyOf(o)
		switch {
		case compareKeys(key, from.After) <= 0 || !selects(o):
		case limit > 0 && len(list.Items) == limit:
			from.After = keyOf(&list.Items[limit-1])
			list.SetContinue(base64.RawURLEncoding.EncodeToString(encode(from)))
			return &Object{Object: list.UnstructuredContent()}, nil
		default:
			list.Items = append(list.Items, *resource.item(o))
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

// listed returns the state that is to be listed, and the limit, which is 0 if there is none.
func (s *Server) listed(r *Request, staleness int64) (from continuation, limit int, err error) {
	from.ResourceVersion = s.resourceVersion
	if text := r.Query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return from, 0, apierrors.NewBadRequest("invalid limit " + text)
		}
	}
	if token := r.Query.Get("continue"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(raw, &from) != nil {
			return from, 0, apierrors.NewBadRequest("continue key is not valid")
		}
		return from, limit, s.isKnown(from.ResourceVersion)
	}
	version := r.Query.Get("resourceVersion")
	asked, err := parseVersion(version)
	if err != nil {
		return from, 0, err
	}
	switch match := r.Query.Get("resourceVersionMatch"); {
	case match != "" && version == "":
		return from, 0, invalidOptions("ListOptions", field.Forbidden(field.NewPath("resourceVersionMatch"), "needs a resourceVersion"))
	case match == string(metav1.ResourceVersionMatchExact):
		from.ResourceVersion = asked
	case match != "" && match != string(metav1.ResourceVersionMatchNotOlderThan):
		return from, 0, apierrors.NewBadRequest("invalid resourceVersionMatch " + match)
	case version != "":
		from.ResourceVersion = min(max(s.resourceVersion-staleness, s.compacted, asked), s.resourceVersion)
	}
	if asked > s.resourceVersion {
		return from, 0, tooLarge()
	}
	return from, limit, s.isKnown(from.ResourceVersion)
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
	parsed, err := strconv.ParseInt(version, 10, 64)
	if err != nil || parsed < 0 {
		return 0, apierrors.NewBadRequest("invalid resource version " + version)
	}
	return parsed, nil
}

// tooLarge is the error for a resourceVersion that the API server has not seen.
func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version", 1)
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
