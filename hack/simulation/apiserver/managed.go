// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// newManagers returns the field managers of a resource and of its subresources. Each resets what is not its own: nobody owns a field of the
// status by a write of the resource, nor one of the spec by a write of the status.
func (r *Resource) newManagers() map[string]*managedfields.FieldManager {
	newManager := managedfields.NewDefaultFieldManager
	if r.IsCustom {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	managers := map[string]*managedfields.FieldManager{}
	status := fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("status"))
	if !r.IsCustom {
		status = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("spec")))
	}
	version := fieldpath.APIVersion(r.GroupVersion().String())
	scheme := same{r}
	for subresource, filter := range map[string]fieldpath.Filter{
		"":       fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status"))),
		"status": status,
		"scale":  nil, "finalize": nil,
	} {
		filters := map[fieldpath.APIVersion]fieldpath.Filter{version: filter}
		if filter == nil || !r.HasStatus {
			filters = nil
		}
		m, err := newManager(r.converter(), scheme, scheme, scheme, r.Kind, r.GroupVersion(), subresource, filters)
		if err != nil {
			panic(err) // It does so for no resource whose hub has another version.
		}
		managers[subresource] = m
	}
	return managers
}

// same is a scheme that converts and defaults nothing: all objects of a resource are unstructured, and of one version.
type same struct{ resource *Resource }

func (same) Convert(in, out, context any) error {
	return errors.New("not simulated: conversion between versions")
}

func (same) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (same) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (same) Default(runtime.Object) {}

func (s same) New(schema.GroupVersionKind) (runtime.Object, error) { return s.resource.empty() }

// empty returns an object without content. Those of built-in kinds have the fields that the Go type always has: nobody is the first to set
// them.
func (r *Resource) empty() (*Object, error) {
	if r.IsCustom {
		return newObject(r.Kind), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(reflect.New(reflect.TypeOf(r.goType)).Interface())
	if err != nil {
		return nil, err
	}
	o := &Object{Object: content}
	o.SetGroupVersionKind(r.Kind)
	return o, nil
}

func newObject(kind schema.GroupVersionKind) *Object {
	o := &Object{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	return o
}

// manage sets the managed fields of what is to be stored instead of what was found, or nil.
func (r *Request) manage(resource *Resource, found, stored *Object) error {
	live, err := resource.empty()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if found != nil {
		live = found.DeepCopy() // Its managed fields are removed.
	}
	managed, err := resource.managers()[r.Subresource].Update(live, stored.DeepCopy(), r.Manager)
	if err != nil { // Validation will say it, unless it is tolerated.
		managed = &Object{}
		if found != nil {
			managed = found
		}
	}
	stored.SetManagedFields(managed.(*Object).GetManagedFields())
	return nil
}

// apply is server-side apply.
func (s *Server) apply(r *Request, resource *Resource, found *Object) (*Object, error) {
	applied, err := r.Object()
	if err != nil {
		return nil, err
	}
	if s.options.WithoutManagedFields {
		return nil, notSimulated("server-side apply without managed fields")
	}
	live, unknown, err := resource.live(r, applied, found)
	if err != nil {
		return nil, err
	}
	result, err := resource.managers()[r.Subresource].Apply(live, applied, r.Manager, r.Query.Get("force") == "true")
	if err != nil {
		if _, ok := err.(apierrors.APIStatus); !ok {
			err = StatusError(http.StatusInternalServerError, err.Error())
		}
		return nil, err
	}
	merged, err := decode(encode(result.(*Object).Object)) // Its numbers become int64 or float64.
	if err != nil {
		return nil, err
	}
	putUnknown(merged, unknown)
	if found == nil {
		merged.SetName(r.Name)
		return s.insert(r, resource, merged)
	}
	return s.update(r, resource, found, merged)
}

// live returns what is applied to: what was found, without its unknown field, or an empty object.
func (resource *Resource) live(r *Request, applied, found *Object) (live *Object, unknown any, err error) {
	if uid := applied.GetUID(); found == nil && uid != "" {
		return nil, nil, apierrors.NewConflict(r.Resource, r.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if found == nil {
		applied.SetResourceVersion("")
		live, err = resource.empty()
		return live, nil, err
	}
	if err := resource.preconditions(r, applied, found); err != nil {
		return nil, nil, err
	}
	live = found.DeepCopy()
	return live, takeUnknown(live), nil
}

// withoutUnknown returns an object without the unknown field.
func withoutUnknown(o *Object) *Object {
	if o == nil || value(o, "spec", UnknownField) == nil {
		return o
	}
	known := o.DeepCopy()
	takeUnknown(known)
	return known
}

// takeUnknown removes the unknown field, and returns its value, or nil.
func takeUnknown(o *Object) any {
	spec, _ := o.Object["spec"].(map[string]any)
	unknown := spec[UnknownField]
	delete(spec, UnknownField)
	return unknown
}

// putUnknown sets the unknown field, if the object has a spec and the value is not nil.
func putUnknown(o *Object, value any) {
	if spec, ok := o.Object["spec"].(map[string]any); ok && value != nil {
		spec[UnknownField] = value
	}
}
