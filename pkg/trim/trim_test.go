// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

var (
	owner    = &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "example-foo", UID: "foo-uid"}}
	someTime = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
)

func labels() map[string]string { return map[string]string{"app": "nginx"} }

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "example", UID: "uid", ResourceVersion: "7", Generation: 3,
			DeletionTimestamp: &someTime, CreationTimestamp: someTime, Labels: labels(), Annotations: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{Name: "other"}, *metav1.NewControllerRef(owner, ownership.FooKind)},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "someone"}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels()}, MinReadySeconds: 5,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(), Annotations: map[string]string{"a": "b"}},
				Spec: corev1.PodSpec{
					Containers:   []corev1.Container{{Name: "nginx", Image: "nginx:latest", Command: []string{"run"}}},
					NodeSelector: labels(),
				},
			},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 4, AvailableReplicas: 5, ReadyReplicas: 6,
			Conditions: []appsv1.DeploymentCondition{{Type: "Progressing", Status: "True", Reason: "Reason", Message: "message"}},
		},
	}
}

func TestTransform(t *testing.T) {
	want := deployment()
	want.CreationTimestamp, want.Annotations, want.ManagedFields = metav1.Time{}, nil, nil
	want.OwnerReferences = want.OwnerReferences[1:]
	want.OwnerReferences[0].BlockOwnerDeletion = nil
	want.Spec.MinReadySeconds = 0
	want.Spec.Template.Annotations = nil
	want.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}}
	want.Status.ReadyReplicas = 0

	changed := func(from *appsv1.Deployment, change func(*appsv1.Deployment)) *appsv1.Deployment {
		to := from.DeepCopy()
		change(to)
		return to
	}
	withLabels := func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "nginx", "controller": "example-foo"} }
	withoutLabels := func(d *appsv1.Deployment) { d.Labels = nil }
	withPodLabels := func(d *appsv1.Deployment) {
		d.Spec.Template.Labels = map[string]string{"app": "nginx", "controller": "example-foo", "team": "a"}
	}
	withMatchLabels := func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels = map[string]string{"app": "other"} }
	withExpressions := func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
	}

	notOurs := deployment()
	notOurs.OwnerReferences = notOurs.OwnerReferences[:1]

	foo := owner.DeepCopy()
	foo.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	foo.Annotations = map[string]string{"a": "b"}
	foo.Spec.DeploymentName = "example"
	foo.Status.Conditions = append(make([]metav1.Condition, 0, 4), metav1.Condition{Type: "Ready"})
	trimmedFoo := foo.DeepCopy()
	trimmedFoo.ManagedFields = nil

	for name, test := range map[string]struct{ object, want any }{
		"a Deployment of a Foo":               {deployment(), want},
		"one with other labels":               {changed(deployment(), withLabels), changed(want, withLabels)},
		"one without labels":                  {changed(deployment(), withoutLabels), changed(want, withoutLabels)},
		"one with more labels of its Pods":    {changed(deployment(), withPodLabels), changed(want, withPodLabels)},
		"one with another selector":           {changed(deployment(), withMatchLabels), changed(want, withMatchLabels)},
		"one with expressions":                {changed(deployment(), withExpressions), changed(want, withExpressions)},
		"a Deployment of nobody that we know": {notOurs, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example", ResourceVersion: "7"}}},
		"a Foo":                               {foo, trimmedFoo},
	} {
		t.Run(name, func(t *testing.T) {
			kept := test.object
			for range 2 { // As client-go does with the objects of a streamed list.
				var err error
				if kept, err = Transform(kept); err != nil {
					t.Fatal(err)
				}
				if got := wholeOf(kept); !reflect.DeepEqual(got, test.want) {
					t.Fatalf("Transform() keeps %v, want %v", got, test.want)
				}
			}
		})
	}
}

// TestIndexesKnowWhatIsKept compares the metadata of a trimmed Deployment with that of the Deployment.
func TestIndexesKnowWhatIsKept(t *testing.T) {
	alien := deployment()
	alien.OwnerReferences = nil
	for name, full := range map[string]*appsv1.Deployment{"owned": deployment(), "foreign": alien} {
		kept, err := Transform(full)
		if err != nil {
			t.Fatal(err)
		}
		got, err := meta.Accessor(kept)
		if err != nil {
			t.Fatal(err)
		}
		want := wholeOf(kept).(*appsv1.Deployment).ObjectMeta
		want.Labels = nil
		if !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: the metadata are %v, want %v", name, got, want)
		}
	}
}

func TestWhatIsEqualIsKeptOnce(t *testing.T) {
	transform := func(full *appsv1.Deployment) *owned {
		kept, err := Transform(full)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*owned)
	}
	first, second := transform(deployment()), transform(deployment())
	if first.others != nil {
		t.Error("equal labels are kept more than once")
	}
	if &first.containers[0] != &second.containers[0] {
		t.Error("equal containers of two Deployments are kept twice")
	}
	different := deployment()
	different.Spec.Template.Spec.Containers[0].Image = "apache"
	if image := transform(different).containers[0].Image; image != "apache" || first.containers[0].Image != "nginx:latest" {
		t.Errorf("images that differ are kept as %s and %s", first.containers[0].Image, image)
	}
}
