// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scale gets or changes the scale of an object. The lock is held.
func (s *Server) scale(r *Request, resource *Resource, found *Object) (*Object, error) {
	scale, err := resource.scaleOf(found)
	if err != nil || r.Verb == "get" {
		return scale, err
	}
	if r.IsApply() {
		return nil, notSimulated("server-side apply of a scale")
	}
	changed := scale
	if r.Verb == "update" {
		changed, err = r.Object()
	} else {
		changed, err = r.patched(scale, autoscalingv1.Scale{})
	}
	if err != nil {
		return nil, err
	}
	if changed.GetName() != r.Name || changed.GroupVersionKind() != scaleKind {
		return nil, apierrors.NewBadRequest("the body is not the scale of " + r.Name)
	}
	if n := number(changed, "spec", "replicas"); n < 0 {
		return nil, apierrors.NewInvalid(scaleKind.GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), n, apivalidation.IsNegativeErrorMsg),
		})
	}
	if err := preconditions(r, changed, found); err != nil {
		return nil, err
	}
	updated := found.DeepCopy()
	set(updated, number(changed, "spec", "replicas"), resource.scale.spec...)
	if updated, err = s.store(r, resource, found, updated); err != nil {
		return nil, err
	}
	return resource.scaleOf(updated)
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
