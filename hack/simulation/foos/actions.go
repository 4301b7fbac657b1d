// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"context"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	typedv1alpha1 "k8s.io/sample-controller/pkg/generated/clientset/versioned/typed/samplecontroller/v1alpha1"
)

// Users are those of a namespace, with clients of a real or of a simulated cluster.
type Users struct {
	FooClient        typedv1alpha1.FooInterface
	DeploymentClient typedappsv1.DeploymentInterface
}

// Target is what an action is about.
type Target struct {
	Foo, Deployment string // names
	Replicas        int32
	Propagation     metav1.DeletionPropagation
}

// String returns the names and the number of replicas.
func (t Target) String() string {
	return fmt.Sprintf("%s, %s, %d replicas", t.Foo, t.Deployment, t.Replicas)
}

// NewTarget returns a random target. There are few names, so that Foos often have the same deploymentName.
func NewTarget(random *rand.Rand) Target {
	policies := []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}
	return Target{
		Foo: fmt.Sprintf("foo-%d", random.IntN(6)), Deployment: fmt.Sprintf("deployment-%d", random.IntN(7)),
		Replicas: random.Int32N(4), Propagation: policies[random.IntN(len(policies))],
	}
}

// Action is what users do to a Foo, or to the Deployment of a name.
type Action struct {
	Name string
	Do   func(ctx context.Context, u Users, t Target) error
}

// Actions are what users do. If the Foo that they change does not exist, they create it.
var Actions = []Action{
	{"create Foo", func(ctx context.Context, u Users, t Target) error { return u.createFoo(ctx, t) }},
	{"scale Foo", func(ctx context.Context, u Users, t Target) error {
		return u.patchFoo(ctx, t, fmt.Sprintf(`{"spec":{"replicas":%d}}`, 1+t.Replicas))
	}},
	{"rename Foo", func(ctx context.Context, u Users, t Target) error {
		return u.patchFoo(ctx, t, fmt.Sprintf(`{"spec":{"deploymentName":%q}}`, t.Deployment))
	}},
	{"delete Foo", func(ctx context.Context, u Users, t Target) error {
		return u.FooClient.Delete(ctx, t.Foo, metav1.DeleteOptions{PropagationPolicy: &t.Propagation})
	}},
	{"create Deployment", func(ctx context.Context, u Users, t Target) error { return u.createDeployment(ctx, t) }},
	{"scale Deployment", func(ctx context.Context, u Users, t Target) error {
		return u.patchDeployment(ctx, t, fmt.Sprintf(`{"spec":{"replicas":%d}}`, t.Replicas))
	}},
	{"edit Deployment", func(ctx context.Context, u Users, t Target) error {
		return u.patchDeployment(ctx, t, `{"metadata":{"labels":{"controller":"other"}},`+
			`"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"other"}]}}}}`)
	}},
	{"orphan Deployment", func(ctx context.Context, u Users, t Target) error {
		return u.patchDeployment(ctx, t, `{"metadata":{"ownerReferences":null}}`)
	}},
	{"delete Deployment", func(ctx context.Context, u Users, t Target) error {
		return u.DeploymentClient.Delete(ctx, t.Deployment, metav1.DeleteOptions{PropagationPolicy: &t.Propagation})
	}},
}

// createFoo creates a Foo that, with 0 replicas, leaves them to its Deployment.
func (u Users) createFoo(ctx context.Context, t Target) error {
	foo := &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: t.Foo}, Spec: samplev1alpha1.FooSpec{DeploymentName: t.Deployment}}
	if t.Replicas > 0 {
		foo.Spec.Replicas = &t.Replicas
	}
	_, err := u.FooClient.Create(ctx, foo, metav1.CreateOptions{})
	return err
}

func (u Users) patchFoo(ctx context.Context, t Target, patch string) error {
	_, err := u.FooClient.Patch(ctx, t.Foo, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return u.createFoo(ctx, t)
	}
	return err
}

// createDeployment creates a Deployment that no Foo controls.
func (u Users) createDeployment(ctx context.Context, t Target) error {
	labels := map[string]string{"app": t.Deployment}
	_, err := u.DeploymentClient.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: t.Deployment, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:latest"}}},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

func (u Users) patchDeployment(ctx context.Context, t Target, patch string) error {
	_, err := u.DeploymentClient.Patch(ctx, t.Deployment, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
