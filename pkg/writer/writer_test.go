// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func TestMayBeStale(t *testing.T) {
	for name, test := range map[string]struct {
		resourceVersion                string
		generation, observedGeneration int64
		found, written                 bool
		want                           bool
	}{
		"new":                        {resourceVersion: "9", generation: 1},
		"not changed since start":    {resourceVersion: "10", generation: 1, found: true, want: true},
		"renamed before start":       {resourceVersion: "9", generation: 2, observedGeneration: 1, want: true},
		"renamed since start":        {resourceVersion: "11", generation: 2, observedGeneration: 1},
		"changed since start":        {resourceVersion: "11", generation: 1, found: true},
		"observed":                   {resourceVersion: "11", generation: 1, observedGeneration: 1, found: true, want: true},
		"written already":            {resourceVersion: "11", generation: 1, written: true, want: true},
		"resourceVersion not known":  {generation: 1, found: true},
		"resourceVersions by number": {resourceVersion: "100", generation: 1, found: true},
	} {
		writer := New(nil, nil, nil, "", nil)
		writer.Start(t.Context(), "10")
		foo := &samplev1alpha1.Foo{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.resourceVersion, Generation: test.generation},
			Status:     samplev1alpha1.FooStatus{ObservedGeneration: test.observedGeneration},
		}
		if test.written {
			writer.StartBackoff(foo, nil)
		}
		var found *appsv1.Deployment
		if test.found {
			found = &appsv1.Deployment{}
		}
		if got := writer.mayBeStale(foo, found); got != test.want {
			t.Errorf("%s: mayBeStale() = %v, want %v", name, got, test.want)
		}
	}
}

func TestMergePatch(t *testing.T) {
	container := func(name, image string) corev1.Container { return corev1.Container{Name: name, Image: image} }
	current := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "example", ResourceVersion: "7", Labels: map[string]string{"app": "nginx"}},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(5)),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{container("sidecar", "sidecar"), container("nginx", "apache")},
				}},
			},
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"nothing":  {func(*appsv1.Deployment) {}, `{"metadata":{"resourceVersion":"7"}}`},
		"replicas": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }, `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`},
		"labels": {func(d *appsv1.Deployment) {
			d.Labels["team"] = "a"
			d.Spec.Template.Labels = map[string]string{"app": "nginx"}
		}, `{"metadata":{"labels":{"team":"a"},"resourceVersion":"7"},"spec":{"template":{"metadata":{"labels":{"app":"nginx"}}}}}`},
		"image": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "nginx:latest" }, `{
			"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"sidecar"},{"name":"nginx"}],
				"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}`},
		"new container": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, container("new", "image"))
		}, `{"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"sidecar"},{"name":"nginx"},{"name":"new"}],
				"containers":[{"image":"image","name":"new","resources":{}}]}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			cached, desired := current(), current()
			test.change(desired)
			patch, err := mergePatch(cached, desired)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := errors.Join(json.Unmarshal(patch, &got), json.Unmarshal([]byte(test.want), &want)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("mergePatch() = %s, want %s", patch, test.want)
			}
			if !reflect.DeepEqual(cached, current()) {
				t.Error("mergePatch() changed the cached Deployment")
			}
		})
	}
}
