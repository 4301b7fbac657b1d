// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/e2e/faults"
)

// declaration is what a user has last declared of a Foo.
type declaration struct {
	namespace, name string
	exists          bool
	spec            samplev1alpha1.FooSpec
}

func (d *declaration) String() string {
	replicas := "any number"
	if d.spec.Replicas != nil {
		replicas = fmt.Sprint(*d.spec.Replicas)
	}
	return fmt.Sprintf("%s/%s, declared with %s of %s", d.namespace, d.name, replicas, d.spec.DeploymentName)
}

// users do all that users do to the Foos and Deployments of some namespaces. What they do depends on a seed and on what they have
// declared, never on how far the program is. They try until they succeed, whatever is away.
type users struct {
	t          *testing.T
	random     *rand.Rand
	namespaces []string
	foos       []*declaration
	history    *history
}

const (
	namespacesOfUsers = 3
	foosInANamespace  = 6
	// patience is how long users wait for an act to succeed: a Foo cannot be created again before its Deployment is garbage.
	patience = time.Minute
)

func newUsers(t *testing.T, seed uint64) *users {
	u := &users{t: t, random: rand.New(rand.NewPCG(seed, 0)), history: watchHistory(t, metav1.NamespaceAll)}
	for range namespacesOfUsers {
		namespace := newNamespace(t)
		u.namespaces = append(u.namespaces, namespace)
		for i := range foosInANamespace {
			u.foos = append(u.foos, &declaration{namespace: namespace, name: fmt.Sprintf("foo-%d", i)})
		}
	}
	return u
}

// acts are what users do, to a Foo that exists, to Deployments of the same namespace, or to both. Names are often those of
// others.
var acts = []struct {
	name string
	act  func(u *users, foo *declaration)
}{
	{"scale", func(u *users, foo *declaration) { u.scale(foo, u.someReplicas()) }},
	{"scale up and down", func(u *users, foo *declaration) {
		before := foo.spec.Replicas
		u.scale(foo, ptr.To[int32](4))
		u.scale(foo, before)
	}},
	{"rename", func(u *users, foo *declaration) { u.rename(foo, u.someName()) }},
	{"rename and back", func(u *users, foo *declaration) {
		before := foo.spec.DeploymentName
		u.rename(foo, u.someName())
		u.rename(foo, before)
	}},
	{"swap names", func(u *users, foo *declaration) {
		other := u.neighbour(foo)
		theirs := other.spec.DeploymentName
		u.rename(other, foo.spec.DeploymentName)
		u.rename(foo, theirs)
	}},
	{"delete", func(u *users, foo *declaration) { u.delete(foo, u.somePropagation()) }},
	{"delete and recreate", func(u *users, foo *declaration) {
		u.delete(foo, u.somePropagation())
		u.declare(foo)
	}},
	{"scale the Deployment", func(u *users, foo *declaration) {
		u.patchDeployment(foo, fmt.Sprintf(`{"spec":{"replicas":%d}}`, u.random.IntN(4)))
	}},
	{"edit the Deployment", func(u *users, foo *declaration) {
		u.patchDeployment(foo, `{"metadata":{"labels":{"edited":"by-hand"}},"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"other"}]}}}}`)
	}},
	{"delete the Deployment", func(u *users, foo *declaration) { u.deleteDeployment(foo.namespace, foo.spec.DeploymentName) }},
	{"orphan the Deployment", func(u *users, foo *declaration) { u.patchDeployment(foo, `{"metadata":{"ownerReferences":null}}`) }},
	{"orphan the Deployment and adopt it", func(u *users, foo *declaration) {
		u.patchDeployment(foo, `{"metadata":{"ownerReferences":null}}`)
		u.adopt(foo)
	}},
	{"adopt a Deployment", (*users).adopt},
	{"create a Deployment of their own", func(u *users, foo *declaration) { u.createDeployment(foo.namespace, u.someName()) }},
	{"delete a Deployment by name", func(u *users, foo *declaration) { u.deleteDeployment(foo.namespace, u.someName()) }},
}

// somePropagation returns what is to happen to the Deployment of a Foo that is deleted.
func (u *users) somePropagation() metav1.DeletionPropagation {
	all := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	return all[u.random.IntN(len(all))]
}

// someReplicas returns a number of replicas, or nil, which leaves it to others.
func (u *users) someReplicas() *int32 {
	if n := u.random.Int32N(4); n > 0 {
		return &n
	}
	return nil
}

// someName returns a name for a Deployment: one more than there are Foos, so that there is one to wait for or to take.
func (u *users) someName() string { return firstName(u.random.IntN(foosInANamespace + 1)) }

func firstName(i int) string { return fmt.Sprintf("first-%d", i) }

// neighbour returns another Foo of the same namespace.
func (u *users) neighbour(foo *declaration) *declaration {
	at := slices.Index(u.foos, foo)
	return u.foos[at/foosInANamespace*foosInANamespace+(at+1+u.random.IntN(foosInANamespace-1))%foosInANamespace]
}

// act does something, and returns its name.
func (u *users) act() string {
	u.t.Helper()
	foo := u.foos[u.random.IntN(len(u.foos))]
	chosen := acts[u.random.IntN(len(acts))]
	if !foo.exists {
		note(u.t, fmt.Sprintf("create %s", foo))
		u.declare(foo)
		return "create"
	}
	note(u.t, fmt.Sprintf("%s %s", chosen.name, foo))
	chosen.act(u, foo)
	return chosen.name
}

func (u *users) scale(foo *declaration, replicas *int32) {
	u.t.Helper()
	foo.spec.Replicas = replicas
	u.declare(foo)
}

func (u *users) rename(foo *declaration, name string) {
	u.t.Helper()
	foo.spec.DeploymentName = name
	u.declare(foo)
}

// declare creates or changes a Foo.
func (u *users) declare(foo *declaration) {
	u.t.Helper()
	client := sampleClient.SamplecontrollerV1alpha1().Foos(foo.namespace)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"deploymentName": foo.spec.DeploymentName, "replicas": foo.spec.Replicas}})
	must(u.t, err)
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		if foo.exists {
			return client.Patch(ctx, foo.name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		created, err := client.Create(ctx, &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: foo.name}, Spec: foo.spec}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		// That it was created may not have been answered.
		there, getErr := client.Get(ctx, foo.name, metav1.GetOptions{})
		if getErr == nil && there.DeletionTimestamp == nil && equality.Semantic.DeepEqual(there.Spec, foo.spec) {
			return there, nil
		}
		return nil, err
	})
	foo.exists = true
}

func (u *users) delete(foo *declaration, propagation metav1.DeletionPropagation) {
	u.t.Helper()
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		return nil, sampleClient.SamplecontrollerV1alpha1().Foos(foo.namespace).Delete(ctx, foo.name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	})
	foo.exists = false
}

// patchDeployment changes the Deployment that a Foo wants, if it is there.
func (u *users) patchDeployment(foo *declaration, patch string) {
	u.t.Helper()
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		return kubeClient.AppsV1().Deployments(foo.namespace).Patch(ctx, foo.spec.DeploymentName, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

// adopt gives a Foo the Deployment that it wants, if that is there, has no other owner, and was made for a Foo of that name.
func (u *users) adopt(foo *declaration) {
	u.t.Helper()
	client := kubeClient.AppsV1().Deployments(foo.namespace)
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		deployment, err := client.Get(ctx, foo.spec.DeploymentName, metav1.GetOptions{})
		if err != nil || len(deployment.OwnerReferences) > 0 || deployment.Spec.Selector.MatchLabels["controller"] != foo.name {
			return nil, err
		}
		owner, err := sampleClient.SamplecontrollerV1alpha1().Foos(foo.namespace).Get(ctx, foo.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		deployment.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, ownership.FooKind)}
		return client.Update(ctx, deployment, metav1.UpdateOptions{})
	})
}

func (u *users) createDeployment(namespace, name string) {
	u.t.Helper()
	labels := map[string]string{"app": name}
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		created, err := kubeClient.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}},
				},
			},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil, nil
		}
		return created, err
	})
}

func (u *users) deleteDeployment(namespace, name string) {
	u.t.Helper()
	u.surely(func(ctx context.Context) (runtime.Object, error) {
		return nil, kubeClient.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// surely tries to do something until it is done, or what it is to be done to is not there. It waits for each answer, so that no
// request is applied later than the next.
func (u *users) surely(do func(ctx context.Context) (runtime.Object, error)) {
	u.t.Helper()
	eventually(u.t, patience, func() error {
		ctx, cancel := context.WithTimeout(u.t.Context(), 10*time.Second)
		defer cancel()
		object, err := do(ctx)
		if err == nil && object != nil {
			u.history.learn(faults.Request{Object: object})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
