// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parameters are those that are understood, by verb.
var parameters = map[string][]string{
	"get": strings.Fields("resourceVersion"),
	"list": strings.Fields(`
		labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds`),
	"watch": strings.Fields(`
		watch labelSelector fieldSelector resourceVersion resourceVersionMatch timeoutSeconds allowWatchBookmarks sendInitialEvents`),
	"create":           strings.Fields("fieldManager fieldValidation"),
	"update":           strings.Fields("fieldManager fieldValidation"),
	"patch":            strings.Fields("fieldManager fieldValidation force"),
	"delete":           strings.Fields("propagationPolicy gracePeriodSeconds"),
	"deletecollection": strings.Fields("labelSelector fieldSelector propagationPolicy gracePeriodSeconds"),
}

// check refuses what is not simulated of a request.
func (resource *Resource) check(r *Request) error {
	for name, values := range r.Query {
		if !slices.Contains(parameters[r.Verb], name) && name != "pretty" && name != "timeout" {
			return notSimulated("parameter %s=%s of %s", name, strings.Join(values, ","), r.Verb)
		}
	}
	switch v := r.Query.Get("fieldValidation"); v {
	case "", "Ignore", "Warn", "Strict":
	default:
		return apierrors.NewBadRequest("fieldValidation " + v)
	}
	if resource.Namespaced && r.Namespace == "" && r.Verb != "list" && r.Verb != "watch" || !resource.Namespaced && r.Namespace != "" {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, r.Resource, r.Name, "its scope is another one", 0, true)
	}
	if r.Subresource == "" {
		return nil
	}
	isServed := r.Subresource == "status" && resource.HasStatus || r.Subresource == "scale" && resource.scale != nil ||
		r.Subresource == "finalize" && r.Resource == namespaces
	if !isServed && (r.Subresource == "status" || r.Subresource == "scale") {
		return apierrors.NewNotFound(r.Resource, r.Name)
	}
	if !isServed {
		return notSimulated("subresource %s of %s", r.Subresource, r.Resource)
	}
	if !slices.Contains([]string{"get", "update", "patch"}, r.Verb) {
		return apierrors.NewMethodNotSupported(r.Resource, r.Verb)
	}
	return nil
}

// invalidOptions is the error of options that contradict each other.
func invalidOptions(kind string, err *field.Error) error {
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", field.ErrorList{err})
}
