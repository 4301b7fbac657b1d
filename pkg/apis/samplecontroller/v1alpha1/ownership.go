// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FooKind is the group, version and kind in owner references to a Foo.
var FooKind = schema.GroupVersion(GroupVersion).WithKind("Foo")

// ControllerRef returns the controller reference of an object if it refers to a Foo, of any version, and nil otherwise.
func ControllerRef(object metav1.Object) *metav1.OwnerReference {
	controllerRef := metav1.GetControllerOfNoCopy(object)
	if controllerRef == nil || schema.FromAPIVersionAndKind(controllerRef.APIVersion, controllerRef.Kind).GroupKind() != FooKind.GroupKind() {
		return nil
	}
	return controllerRef
}

// Controls reports whether a Foo is the controller of an object. UIDs are compared: an earlier Foo of the same name is another Foo.
func (f *Foo) Controls(object metav1.Object) bool {
	controllerRef := ControllerRef(object)
	return controllerRef != nil && controllerRef.UID == f.UID
}

// IsObserved reports whether the status of a Foo is about its newest spec.
func (f *Foo) IsObserved() bool { return f.Status.ObservedGeneration == f.Generation }
