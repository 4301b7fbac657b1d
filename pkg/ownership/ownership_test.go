// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

var foo = &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "example-foo", UID: "foo-uid"}}

func deployment(changes ...func(*metav1.OwnerReference)) *appsv1.Deployment {
	owner := metav1.NewControllerRef(foo, FooKind)
	for _, change := range changes {
		change(owner)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "example",
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
	}
}

func TestFooOf(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metav1.OwnerReference)
		want   bool
	}{
		"the Foo that controls a Deployment":     {func(*metav1.OwnerReference) {}, true},
		"a Foo of a newer version of the API":    {func(o *metav1.OwnerReference) { o.APIVersion = "samplecontroller.k8s.io/v1" }, true},
		"a Foo of another group":                 {func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1alpha1" }, false},
		"another kind":                           {func(o *metav1.OwnerReference) { o.Kind = "Bar" }, false},
		"a Foo that owns it without controlling": {func(o *metav1.OwnerReference) { o.Controller = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FooOf(deployment(test.change)); (got != nil) != test.want {
				t.Errorf("FooOf() = %v, want one: %v", got, test.want)
			}
			if got := Controls(foo, deployment(test.change)); got != test.want {
				t.Errorf("Controls() = %v, want %v", got, test.want)
			}
			earlier := &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: foo.Name, UID: "earlier-uid"}}
			if Controls(earlier, deployment(test.change)) {
				t.Error("an earlier Foo of the same name controls it too")
			}
		})
	}
}
