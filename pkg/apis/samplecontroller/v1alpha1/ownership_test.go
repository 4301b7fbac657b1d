// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestControllerRef(t *testing.T) {
	foo := &Foo{ObjectMeta: metav1.ObjectMeta{Name: "example-foo", UID: "uid"}}
	for name, test := range map[string]struct {
		change       func(*metav1.OwnerReference)
		want         bool // Is it a Foo that controls the object?
		wantControls bool // Is it this Foo?
	}{
		"this Foo":                   {func(*metav1.OwnerReference) {}, true, true},
		"Foo of another API version": {func(ref *metav1.OwnerReference) { ref.APIVersion = "samplecontroller.k8s.io/v1" }, true, true},
		"earlier Foo of the name":    {func(ref *metav1.OwnerReference) { ref.UID = "earlier-uid" }, true, false},
		"Foo of another group":       {func(ref *metav1.OwnerReference) { ref.APIVersion = "example.com/v1alpha1" }, false, false},
		"another kind":               {func(ref *metav1.OwnerReference) { ref.Kind = "ReplicaSet" }, false, false},
		"owner but not controller":   {func(ref *metav1.OwnerReference) { ref.Controller = nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := metav1.NewControllerRef(foo, FooKind)
			test.change(ref)
			another := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "another", UID: "another-uid"}
			object := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{another, *ref}}
			got := ControllerRef(object)
			if (got != nil) != test.want || got != nil && got.UID != ref.UID {
				t.Errorf("ControllerRef() = %v, want it: %v", got, test.want)
			}
			if got := foo.Controls(object); got != test.wantControls {
				t.Errorf("Controls() = %v, want %v", got, test.wantControls)
			}
		})
	}
	if got := ControllerRef(&metav1.ObjectMeta{}); got != nil || foo.Controls(&metav1.ObjectMeta{}) {
		t.Errorf("ControllerRef() = %v of an object without owners", got)
	}
}

func TestIsObserved(t *testing.T) {
	for observedGeneration, want := range map[int64]bool{0: false, 1: false, 2: true} {
		foo := &Foo{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: FooStatus{ObservedGeneration: observedGeneration}}
		if got := foo.IsObserved(); got != want {
			t.Errorf("IsObserved() = %v with observedGeneration %d of 2, want %v", got, observedGeneration, want)
		}
	}
}
