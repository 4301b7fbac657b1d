// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaleResource is the resource of scales, as field managers need it.
var scaleResource = sync.OnceValue(func() *Resource {
	fields := map[string]any{"type": "object", "properties": map[string]any{
		"replicas": map[string]any{"type": "integer"}, "selector": map[string]any{"type": "string"},
	}}
	r := &Resource{Kind: scaleKind, IsCustom: true, Schema: map[string]any{
		"type": "object", "properties": map[string]any{"spec": fields, "status": fields},
	}}
	r.GroupVersionResource = scaleKind.GroupVersion().WithResource("scales")
	if err := r.addSchema(); err != nil {
		panic(err) // It is always the same.
	}
	return r
})

// scale gets or changes the scale of an object. The lock is held.
func (s *Server) scale(r *Request, resource *Resource, found *Object) (*Object, error) {
	scale, err := resource.scaleOf(found)
	if err != nil || r.Verb == "get" {
		return scale, err
	}
	changed, err := changeScale(r, scale)
	if err != nil {
		return nil, err
	}
	if err := resource.preconditions(r, changed, found); err != nil {
		return nil, err
	}
	updated := found.DeepCopy()
	set(updated, number(changed, "spec", "replicas"), resource.scale.spec...)
	if !s.options.WithoutManagedFields {
		if err := resource.manageScale(r, updated, scale, changed); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if updated, err = s.store(r, resource, found, updated); err != nil {
		return nil, err
	}
	return resource.scaleOf(updated)
}

// manageScale sets the managed fields of an object whose scale has changed.
func (resource *Resource) manageScale(r *Request, o, scale, changed *Object) error {
	path := fieldpath.Path{}
	for _, name := range resource.scale.spec {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	version := resource.GroupVersion()
	handler := managedfields.NewScaleHandler(o.GetManagedFields(), version, managedfields.ResourcePathMappings{version.String(): path})
	entries, err := handler.ToSubresource()
	if err != nil {
		return err
	}
	live := scale.DeepCopy()
	live.SetManagedFields(entries)
	managed, err := scaleResource().managers()["scale"].Update(live, changed.DeepCopy(), r.Manager)
	if err != nil {
		return err
	}
	if entries, err = handler.ToParent(managed.(*Object).GetManagedFields()); err != nil {
		return err
	}
	o.SetManagedFields(entries)
	return nil
}

// changeScale returns the scale after an update or a patch.
func changeScale(r *Request, scale *Object) (changed *Object, err error) {
	switch {
	case r.IsApply():
		return nil, notSimulated("server-side apply of a scale")
	case r.Verb == "update":
		changed, err = r.Object()
	default:
		changed, err = r.patched(scale, autoscalingv1.Scale{})
	}
	if err != nil {
		return nil, err
	}
	if kind := changed.GroupVersionKind(); kind != scaleKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s, not a %s", kind, scaleKind))
	}
	if err := checkName(r, changed); err != nil {
		return nil, err
	}
	if n := number(changed, "spec", "replicas"); n < 0 {
		return nil, apierrors.NewInvalid(scaleKind.GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), n, apivalidation.IsNegativeErrorMsg),
		})
	}
	typed := &autoscalingv1.Scale{} // Without the fields that are 0.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, typed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if changed.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// scaleOf returns the scale of an object.
func (resource *Resource) scaleOf(o *Object) (*Object, error) {
	selector, err := resource.scaleSelector(o)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: scaleKind.GroupVersion().String(), Kind: scaleKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			CreationTimestamp: o.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(number(o, resource.scale.spec...))},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(number(o, resource.scale.status...)), Selector: selector},
	})
	return &Object{Object: content}, err
}

// scaleSelector returns the label selector of an object's Pods as a string.
func (resource *Resource) scaleSelector(o *Object) (string, error) {
	if len(resource.scale.selector) == 0 {
		return "", nil
	}
	switch selector := value(o, resource.scale.selector...).(type) {
	case nil:
		return "", nil
	case string:
		return selector, nil
	case map[string]any:
		if o.GetKind() == "ReplicationController" {
			set, _, err := unstructured.NestedStringMap(o.Object, resource.scale.selector...)
			return labels.SelectorFromSet(set).String(), err
		}
		parsed := &metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, parsed); err != nil {
			return "", err
		}
		s, err := metav1.LabelSelectorAsSelector(parsed)
		if err != nil {
			return "", err
		}
		return s.String(), nil
	}
	return "", apierrors.NewInternalError(errors.New("the selector is no string and no label selector"))
}
