// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalversionvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parameters are those that are understood, by verb.
var parameters = map[string][]string{
	"get": strings.Fields("resourceVersion"),
	"list": strings.Fields(`
		labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds`),
	"watch": strings.Fields(`
		watch labelSelector fieldSelector resourceVersion resourceVersionMatch timeoutSeconds allowWatchBookmarks sendInitialEvents`),
	"create":           strings.Fields("fieldManager fieldValidation dryRun"),
	"update":           strings.Fields("fieldManager fieldValidation dryRun"),
	"patch":            strings.Fields("fieldManager fieldValidation dryRun force"),
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
	if err := r.checkOptions(); err != nil {
		return err
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
		if resource.IsCustom {
			return apierrors.NewNotFound(r.Resource, r.Name)
		}
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	}
	if !isServed {
		return notSimulated("subresource %s of %s", r.Subresource, r.Resource)
	}
	if !slices.Contains([]string{"get", "update", "patch"}, r.Verb) {
		return apierrors.NewMethodNotSupported(r.Resource, r.Verb)
	}
	return nil
}

// checkOptions checks the options of a write, but those of a deletion.
func (r *Request) checkOptions() error {
	manager, validation, dryRun := r.Query.Get("fieldManager"), r.Query.Get("fieldValidation"), r.Query["dryRun"]
	switch r.Verb {
	case "create":
		options := &metav1.CreateOptions{FieldManager: manager, FieldValidation: validation, DryRun: dryRun}
		return invalidOptions("CreateOptions", metav1validation.ValidateCreateOptions(options))
	case "update":
		options := &metav1.UpdateOptions{FieldManager: manager, FieldValidation: validation, DryRun: dryRun}
		return invalidOptions("UpdateOptions", metav1validation.ValidateUpdateOptions(options))
	case "patch":
		options := &metav1.PatchOptions{FieldManager: manager, FieldValidation: validation, DryRun: dryRun}
		if r.Query.Has("force") {
			options.Force = new(r.Query.Get("force") == "true")
		}
		return invalidOptions("PatchOptions", metav1validation.ValidatePatchOptions(options, r.PatchType))
	}
	return nil
}

// listOptions returns the options of a list, of a watch or of the deletion of a collection.
func (r *Request) listOptions(hasWatchList bool) (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{LabelSelector: labels.Everything(), FieldSelector: fields.Everything()}
	if err := internalversionscheme.ParameterCodec.DecodeParameters(r.Query, metav1.SchemeGroupVersion, options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, invalidOptions("ListOptions", internalversionvalidation.ValidateListOptions(options, hasWatchList))
}

// invalidOptions is the error of options that are invalid, or nil.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}
