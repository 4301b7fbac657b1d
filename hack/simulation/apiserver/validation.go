// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
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
	if resource.IsCustom && found != nil {
		invalid = append(invalid, invalid...) // The API server says it twice.
	}
	if resource.IsCustom {
		return append(invalid, resource.validateCustom(found, o)...)
	}
	if found == nil {
		invalid = append(invalid, validateFinalizers(o, metadata.Child("finalizers"))...)
	}
	return append(append(invalid, resource.validateBuiltIn(o)...), resource.validateImmutable(found, o)...)
}

func (resource *Resource) nameFunc() apivalidation.ValidateNameFunc {
	switch {
	case resource.Group == "rbac.authorization.k8s.io":
		return func(name string, _ bool) []string { return rest.IsValidPathSegmentName(name) }
	case resource.goType != nil && (resource.Kind.Kind == "Namespace" || resource.Kind.Kind == "Service"):
		return apivalidation.NameIsDNSLabel
	}
	return apivalidation.NameIsDNSSubdomain
}

// validateCustom validates a custom resource by its schema. What was invalid before, and is unchanged, is tolerated.
func (resource *Resource) validateCustom(found, o *Object) (invalid field.ErrorList) {
	errs := resource.schemaErrors(o)
	if found == nil {
		return errs
	}
	if !slices.ContainsFunc(errs, blocksRules) {
		invalid = changed(nil, found.Object, o.Object, resource.Schema)
	}
	var before []string
	for _, err := range resource.schemaErrors(found) {
		before = append(before, err.Error())
	}
	return append(slices.DeleteFunc(errs, func(err *field.Error) bool { return slices.Contains(before, err.Error()) }), invalid...)
}

// blocksRules reports whether the rules of an object with such an error are not evaluated. See hasBlockingErr in
// k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}

func (resource *Resource) schemaErrors(o *Object) (invalid field.ErrorList) {
	for _, err := range resource.validator.Validate(o.Object).Errors {
		invalid = append(invalid, fieldError(err))
	}
	invalid = append(append(invalid, resource.validateScale(o)...), duplicates(nil, o.Object, resource.Schema)...)
	if resource.hasRules && slices.ContainsFunc(invalid, blocksRules) {
		invalid = append(invalid, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
			"correct the existing errors to complete validation"))
	}
	return invalid
}

// validateScale checks the numbers of replicas that the subresource scale shows.
func (resource *Resource) validateScale(o *Object) (invalid field.ErrorList) {
	if resource.scale == nil {
		return nil
	}
	for _, path := range [][]string{resource.scale.spec, resource.scale.status} {
		at := field.NewPath("." + strings.Join(path, "."))
		n, _, err := unstructured.NestedInt64(o.Object, path...)
		switch {
		case err != nil:
			invalid = append(invalid, field.Invalid(at, n, err.Error()))
		case n < 0:
			invalid = append(invalid, field.Invalid(at, n, "should be a non-negative integer"))
		}
	}
	return invalid
}

// duplicates returns what is more than once in a list that is a set or a map.
func duplicates(at *field.Path, value any, schema map[string]any) (invalid field.ErrorList) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		additional, _ := schema["additionalProperties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if property, ok := properties[name].(map[string]any); ok {
				invalid = append(invalid, duplicates(at.Child(name), value[name], property)...)
			} else if additional != nil {
				invalid = append(invalid, duplicates(at.Key(name), value[name], additional)...)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		seen := map[string]bool{}
		for i, item := range value {
			key := item
			if schema["x-kubernetes-list-type"] == "map" {
				key = keyOfItem(item, schema["x-kubernetes-list-map-keys"])
			} else if schema["x-kubernetes-list-type"] != "set" {
				key = i
			}
			if text := string(encode(key)); seen[text] {
				invalid = append(invalid, field.Duplicate(at.Index(i), key))
			} else {
				seen[text] = true
			}
			invalid = append(invalid, duplicates(at.Index(i), item, items)...)
		}
	}
	return invalid
}

// keyOfItem returns those fields of an item of a list that is a map which are its keys.
func keyOfItem(item, keys any) map[string]any {
	key := map[string]any{}
	fields, _ := item.(map[string]any)
	names, _ := keys.([]any)
	for _, name := range names {
		if name, _ := name.(string); fields[name] != nil {
			key[name] = fields[name]
		}
	}
	return key
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
		maxLength, _ := v.Valid.(int64)
		return field.TooLong(at, v.Value, int(maxLength))
	case openapierrors.EnumFailCode:
		var values []string
		for _, value := range v.Values {
			values = append(values, fmt.Sprint(value))
		}
		return field.NotSupported(at, v.Value, values)
	}
	return field.Invalid(at, v.Value, v.Error())
}
