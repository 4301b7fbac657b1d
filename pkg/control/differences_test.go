// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func differ(found, desired *appsv1.Deployment) Differences[*appsv1.Deployment] {
	return Differences[*appsv1.Deployment]{"Deployment", found, desired}
}

func TestDifferences(t *testing.T) {
	desired := func() *appsv1.Deployment {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "example"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
		deployment.Labels = map[string]string{"app": "nginx", "controller": "example-foo"}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "sidecar"}, {Name: "nginx", Image: "nginx:latest"}}
		return deployment
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"replicas":    {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }, "spec.replicas: desired 2, found 5"},
		"no replicas": {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, "spec.replicas: desired 2, found nothing"},
		"image of the second container": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "apache" },
			`spec.template.spec.containers[nginx].image: desired "nginx:latest", found "apache"`},
		"order of containers": {func(d *appsv1.Deployment) {
			containers := d.Spec.Template.Spec.Containers
			containers[0], containers[1] = containers[1], containers[0]
		}, ""},
		"label": {func(d *appsv1.Deployment) { d.Labels["app"] = "other" }, `metadata.labels.app: desired "nginx", found "other"`},
		"several": {func(d *appsv1.Deployment) {
			d.Labels = map[string]string{"team": "a"}
			d.Spec.Replicas = new(int32(5))
		}, `metadata.labels.app: desired "nginx", found nothing; metadata.labels.controller: desired "example-foo", found nothing; ` +
			"spec.replicas: desired 2, found 5"},
	} {
		t.Run(name, func(t *testing.T) {
			found := desired()
			test.change(found)
			if got := differ(found, desired()).String(); got != test.want {
				t.Errorf("String() = %q, want %q", got, test.want)
			}
		})
	}
	if got := differ(nil, desired()).String(); got != `Deployment "example": desired, found nothing` {
		t.Errorf("String() = %q without a Deployment", got)
	}
}

// What the API server takes for equal is no difference: it stores a quantity in its canonical form, and no empty list.
func TestNoDifferences(t *testing.T) {
	container := func(cpu string, args []string) *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Args: args, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		}}}}
	}
	stored := container("1", nil)
	for name, test := range map[string]struct {
		desired *appsv1.Deployment
		want    bool
	}{
		"same":             {container("1", nil), false},
		"quantity":         {container("1000m", nil), false},
		"empty list":       {container("1", []string{}), false},
		"another quantity": {container("1001m", nil), true},
		"another list":     {container("1", []string{"-v"}), true},
	} {
		if got := differ(stored, test.desired).Exist(); got != test.want {
			t.Errorf("%s: Exist() = %v, want %v", name, got, test.want)
		}
	}
}
