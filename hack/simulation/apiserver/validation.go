// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
)

// validate returns what is invalid of an object that is to be stored instead of what was found, or nil.
func (resource *Resource) validate(found, o *Object) field.ErrorList {
	metadata := field.NewPath("metadata")
	var invalid field.ErrorList
	if found == nil {
		invalid = apivalidation.ValidateObjectMetaAccessor(o, resource.Namespaced, resource.nameFunc(), metadata)
	} else {
		invalid = apivalidation.ValidateObjectMetaAccessorUpdate(o, found, metadata)
	}
	if resource.IsCustom {
		return append(invalid, resource.validateCustom(found, o)...)
	}
	return append(append(invalid, resource.validateBuiltIn(o)...), resource.validateImmutable(found, o)...)
}

func (resource *Resource) nameFunc() apivalidation.ValidateNameFunc {
	switch {
	case resource.Group == "rbac.authorization.k8s.io":
		return func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	case resource.goType != nil && (resource.Kind.Kind == "Namespace" || resource.Kind.Kind == "Service"):
		return apivalidation.NameIsDNSLabel
	}
	return apivalidation.NameIsDNSSubdomain
}

// validateCustom validates a custom resource by its schema. What was invalid before, and is unchanged, is tolerated.
func (resource *Resource) validateCustom(found, o *Object) (invalid field.ErrorList) {
	errs := resource.schemaErrors(o)
	if len(errs) == 0 || found == nil {
		return errs
	}
	var before []string
	for _, err := range resource.schemaErrors(found) {
		before = append(before, err.Error())
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return slices.Contains(before, err.Error()) })
}

func (resource *Resource) schemaErrors(o *Object) (invalid field.ErrorList) {
	for _, err := range resource.validator.Validate(o.Object).Errors {
		invalid = append(invalid, fieldError(err))
	}
	if len(invalid) > 0 {
		return invalid
	}
	if _, err := resource.converter().ObjectToTyped(o); err != nil { // It has duplicates in a set or in a map.
		return field.ErrorList{field.Invalid(nil, o.GetName(), err.Error())}
	}
	return nil
}

// fieldError returns an error of a schema as the API server shows it.
func fieldError(err error) *field.Error {
	var v *openapierrors.Validation
	if !errors.As(err, &v) {
		return field.Invalid(nil, "", err.Error())
	}
	var at *field.Path
	if v.Name != "" && v.Name != "." {
		at = field.NewPath(strings.TrimPrefix(v.Name, "."))
	}
	switch v.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, v.Value, v.Error())
	case openapierrors.TooLongFailCode:
		return field.TooLong(at, v.Value, -1)
	case openapierrors.EnumFailCode:
		var values []string
		for _, value := range v.Values {
			values = append(values, fmt.Sprint(value))
		}
		return field.NotSupported(at, v.Value, values)
	}
	return field.Invalid(at, v.Value, v.Error())
}
