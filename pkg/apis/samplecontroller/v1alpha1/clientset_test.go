// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// The fake of client-go supports apply only for kinds whose plural it can guess.

package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	applyv1alpha1 "k8s.io/sample-controller/pkg/generated/applyconfiguration/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
)

// Users of the clientset test with the generated fake: its server-side apply has to merge conditions by type.
func TestFakeClientsetApply(t *testing.T) {
	client := fake.NewClientset().SamplecontrollerV1alpha1().Foos("default")
	apply := func(manager, conditionType string) *samplev1alpha1.Foo {
		t.Helper()
		applied, err := client.ApplyStatus(t.Context(), applyv1alpha1.Foo("example-foo", "default").WithStatus(applyv1alpha1.FooStatus().
			WithConditions(applymetav1.Condition().WithType(conditionType).WithStatus(metav1.ConditionTrue))),
			metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
	if _, err := client.Apply(t.Context(), applyv1alpha1.Foo("example-foo", "default").
		WithSpec(applyv1alpha1.FooSpec().WithDeploymentName("example-foo")), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		t.Fatal(err)
	}
	apply("one", "Ready")
	if got := apply("two", "Warmed").Status.Conditions; len(got) != 2 {
		t.Errorf("conditions = %v, want those of both managers", got)
	}
}
