// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

var (
	owner    = &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "example-foo", UID: "foo-uid"}}
	someTime = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
)

func labels() map[string]string { return map[string]string{"app": "nginx"} }

func owned() *appsv1.Deployment {
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
	trimmed := owned()
	trimmed.CreationTimestamp, trimmed.Annotations, trimmed.ManagedFields = metav1.Time{}, nil, nil
	trimmed.OwnerReferences = trimmed.OwnerReferences[1:]
	trimmed.OwnerReferences[0].BlockOwnerDeletion = nil
	trimmed.Spec.MinReadySeconds = 0
	trimmed.Spec.Template.Annotations = nil
	trimmed.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}}
	trimmed.Status.ReadyReplicas = 0

	notOurs := owned()
	notOurs.OwnerReferences = notOurs.OwnerReferences[:1]

	foo := owner.DeepCopy()
	foo.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	foo.Annotations = map[string]string{"a": "b"}
	foo.Status.Conditions = append(make([]metav1.Condition, 0, 4), metav1.Condition{Type: "Ready"})
	trimmedFoo := foo.DeepCopy()
	trimmedFoo.ManagedFields = nil

	for name, test := range map[string]struct{ object, want any }{
		"a Deployment of a Foo":               {owned(), trimmed},
		"a Deployment of nobody that we know": {notOurs, &foreign{"default", "example", "7"}},
		"a Foo":                               {foo, trimmedFoo},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.object
			for range 2 { // As client-go does with the objects of a streamed list.
				var err error
				if got, err = Transform(got); err != nil || !reflect.DeepEqual(got, test.want) {
					t.Fatalf("Transform() = %v, %v, want %v", got, err, test.want)
				}
			}
		})
	}
}

func TestWhatIsEqualIsKeptOnce(t *testing.T) {
	got, _ := Transform(owned())
	deployment := got.(*appsv1.Deployment)
	deployment.Labels["app"] = "changed"
	if deployment.Spec.Template.Labels["app"] != "changed" || deployment.Spec.Selector.MatchLabels["app"] != "changed" {
		t.Error("equal labels are kept more than once")
	}
	got, _ = Transform(owned())
	containers := got.(*appsv1.Deployment).Spec.Template.Spec.Containers
	if &containers[0] != &deployment.Spec.Template.Spec.Containers[0] {
		t.Error("equal containers of two Deployments are kept twice")
	}
	different := owned()
	different.Labels["app"] = "other"
	different.Spec.Template.Spec.Containers[0].Image = "apache"
	got, _ = Transform(different)
	deployment = got.(*appsv1.Deployment)
	if deployment.Labels["app"] != "other" || deployment.Spec.Template.Labels["app"] != "nginx" || deployment.Spec.Selector.MatchLabels["app"] != "nginx" {
		t.Errorf("labels that differ are kept as %v, %v and %v", deployment.Labels, deployment.Spec.Template.Labels, deployment.Spec.Selector)
	}
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "apache" || containers[0].Image != "nginx:latest" {
		t.Errorf("images that differ are kept as %s and %s", containers[0].Image, image)
	}
}
