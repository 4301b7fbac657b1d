// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

const (
	namespace = metav1.NamespaceDefault
	// manyLabel is the label of the Foos of createMany.
	manyLabel = "lab"
	// container is the container whose image is edited.
	container = "nginx"
)

var (
	objectField   = field{Name: "name", Default: "a"}
	replicasField = field{Name: "replicas", Default: "3", Type: "number", Min: 1, Max: 10}
)

// acts are what a user can do.
var acts = []action{
	{
		Name: "create", Label: "Create a Foo",
		Command: `echo '{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"{name}"},` +
			`"spec":{"deploymentName":"{deploymentName}","replicas":{replicas}}}' | kubectl create -f -`,
		Fields: []field{objectField, {Name: "deploymentName", Default: "a"}, {Name: "replicas", Default: "1", Type: "number", Min: 1, Max: 10}},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.create(ctx, v["name"], v["deploymentName"], int32(v.number("replicas")), nil)
		},
	},
	{
		Name: "scale", Label: "Scale it", Command: "kubectl scale foo/{name} --replicas={replicas}",
		Fields: []field{objectField, replicasField},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.patch(ctx, v["name"], `{"replicas":`+v["replicas"]+`}`)
		},
	},
	{
		Name: "rename", Label: "Rename its Deployment",
		Command: `kubectl patch foo/{name} --type=merge -p '{"spec":{"deploymentName":"{deploymentName}"}}'`,
		Fields:  []field{objectField, {Name: "deploymentName", Default: "b"}},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.patch(ctx, v["name"], `{"deploymentName":"`+v["deploymentName"]+`"}`)
		},
	},
	{
		Name: "delete", Label: "Delete it", Command: "kubectl delete foo/{name}",
		Fields: []field{objectField},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Delete(ctx, v["name"], inBackground())
		},
	},
	{
		Name: "createMany", Label: "Create many Foos",
		Command: `for i in $(seq -f %04g 0 $(({count} - 1))); do echo '{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo",` +
			`"metadata":{"name":"many-'$i'","labels":{"` + manyLabel + `":"many"}},"spec":{"deploymentName":"many-'$i'","replicas":1}}'; done | kubectl create -f -`,
		Fields: []field{{Name: "count", Default: "100", Type: "number", Min: 1, Max: 1000}},
		do: func(ctx context.Context, l *lab, v values) error {
			for n := range v.number("count") {
				name := fmt.Sprintf("many-%04d", n)
				if err := l.create(ctx, name, name, 1, map[string]string{manyLabel: "many"}); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name: "deleteMany", Label: "Delete these", Command: "kubectl delete foos -l " + manyLabel + "=many",
		do: func(ctx context.Context, l *lab, _ values) error {
			return l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).DeleteCollection(ctx, inBackground(),
				metav1.ListOptions{LabelSelector: manyLabel + "=many"})
		},
	},
	{
		Name: "deleteDeployment", Label: "Delete a Deployment", Command: "kubectl delete deployment/{name}",
		Fields: []field{objectField},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.kubeClient.AppsV1().Deployments(namespace).Delete(ctx, v["name"], inBackground())
		},
	},
	{
		Name: "scaleDeployment", Label: "Scale a Deployment", Command: "kubectl scale deployment/{name} --replicas={replicas}",
		Fields: []field{objectField, replicasField},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.patchDeployment(ctx, v["name"], `{"replicas":`+v["replicas"]+`}`)
		},
	},
	{
		Name: "editDeployment", Label: "Edit a Deployment's image", Command: "kubectl set image deployment/{name} " + container + "=apache",
		Fields: []field{objectField},
		do: func(ctx context.Context, l *lab, v values) error {
			return l.patchDeployment(ctx, v["name"], `{"template":{"spec":{"containers":[{"name":"`+container+`","image":"apache"}]}}}`)
		},
	},
	{
		Name: "takeName", Label: "Take a Deployment's name", Command: "kubectl create deployment {name} --image=nginx",
		Fields: []field{{Name: "name", Default: "taken"}},
		do: func(ctx context.Context, l *lab, v values) error {
			labels := map[string]string{"app": v["name"]}
			deployment := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: v["name"], Labels: labels},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "nginx"}}},
					},
				},
			}
			_, err := l.kubeClient.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{})
			return err
		},
	},
}

// inBackground is how kubectl deletes.
func inBackground() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
}

func (l *lab) create(ctx context.Context, name, deploymentName string, replicas int32, labels map[string]string) error {
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: deploymentName, Replicas: &replicas},
	}
	_, err := l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Create(ctx, foo, metav1.CreateOptions{})
	return err
}

// patch changes the spec of a Foo.
func (l *lab) patch(ctx context.Context, name, spec string) error {
	patch := []byte(`{"spec":` + spec + `}`)
	_, err := l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// patchDeployment changes the spec of a Deployment.
func (l *lab) patchDeployment(ctx context.Context, name, spec string) error {
	patch := []byte(`{"spec":` + spec + `}`)
	_, err := l.kubeClient.AppsV1().Deployments(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
