// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "example", ResourceVersion: "7", Labels: map[string]string{"app": "nginx"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nginx"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
	for _, change := range changes {
		change(deployment)
	}
	return deployment
}

var wish = Wish{Container: "nginx", Image: "nginx:latest", Replicas: new(int32(2))}

func TestPatch(t *testing.T) {
	for name, test := range map[string]struct {
		current *appsv1.Deployment
		wish    Wish
		want    string // JSON, or empty if nothing is to be patched.
	}{
		"what is as wished needs no patch": {deployment(), wish, ""},
		"what others have set needs no patch": {
			current: deployment(func(d *appsv1.Deployment) {
				d.Labels["team"] = "a"
				d.Annotations = map[string]string{"note": "mine"}
				d.Spec.Paused = true
				d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "mine"}}
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar"})
			}),
			wish: wish,
		},
		"replicas are put back": {
			current: deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }),
			wish:    wish,
			want:    `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`,
		},
		"replicas that nobody wishes for are left alone": {
			current: deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }),
			wish:    Wish{Container: wish.Container, Image: wish.Image},
		},
		"labels that were removed or changed are put back": {
			current: deployment(func(d *appsv1.Deployment) {
				d.Labels = nil
				d.Spec.Template.Labels["app"] = "other"
			}),
			wish: wish,
			want: `{"metadata":{"labels":{"app":"nginx"},"resourceVersion":"7"},"spec":{"template":{"metadata":{"labels":{"app":"nginx"}}}}}`,
		},
		"an image is put back, whatever the order of the containers": {
			current: deployment(func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "sidecar"}, {Name: "nginx", Image: "apache"}}
			}),
			wish: wish,
			want: `{"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"sidecar"},{"name":"nginx"}],
				"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}`,
		},
		"a container that is missing is added": {
			current: deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "renamed" }),
			wish:    wish,
			want: `{"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"renamed"},{"name":"nginx"}],
				"containers":[{"image":"nginx:latest","name":"nginx","resources":{}}]}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.current.DeepCopy()
			patch, err := Patch(test.current, map[string]string{"app": "nginx"}, test.wish)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(parsed(t, string(patch)), parsed(t, test.want)) {
				t.Errorf("patch = %s, want %s", patch, test.want)
			}
			if !reflect.DeepEqual(test.current, before) {
				t.Error("what belongs to the cache was changed")
			}
		})
	}
}

func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
