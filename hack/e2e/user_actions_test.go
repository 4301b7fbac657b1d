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

	"k8s.io/sample-controller/hack/cluster/faults"
)

// declaredFoo is the desired state of a Foo, as last applied by a user.
type declaredFoo struct {
	namespace, name string
	exists          bool
	spec            samplev1alpha1.FooSpec
}

func (d *declaredFoo) String() string {
	replicas := "unset"
	if d.spec.Replicas != nil {
		replicas = fmt.Sprint(*d.spec.Replicas)
	}
	return fmt.Sprintf("%s/%s (deploymentName %s, replicas %s)", d.namespace, d.name, d.spec.DeploymentName, replicas)
}

// users perform random actions on Foos and Deployments in several namespaces. The actions depend on the seed and on earlier actions,
// but not on the progress of the controller. They are retried until they succeed.
type users struct {
	t          *testing.T
	random     *rand.Rand
	namespaces []string
	foos       []*declaredFoo
	history    *history
}

const (
	namespaceCount   = 3
	foosPerNamespace = 6
	// actionTimeout bounds the retries of an action. A Foo that is deleted in the foreground exists until its Deployment is gone.
	actionTimeout = time.Minute
)

func newUsers(t *testing.T, seed uint64) *users {
	u := &users{t: t, random: rand.New(rand.NewPCG(seed, 0)), history: watchHistory(t, metav1.NamespaceAll)}
	for range namespaceCount {
		namespace := newNamespace(t)
		t.Cleanup(func() { deleteFoos(t, namespace) })
		u.namespaces = append(u.namespaces, namespace)
		for i := range foosPerNamespace {
			u.foos = append(u.foos, &declaredFoo{namespace: namespace, name: fmt.Sprintf("foo-%d", i)})
		}
	}
	return u
}

// deleteFoos deletes all Foos of a namespace, and waits until they are gone. The deletion of a namespace may leave them behind for ever, if
// the API server, which has just been restarted, does not list their resource yet.
func deleteFoos(t *testing.T, namespace string) {
	t.Helper()
	ctx, client := context.Background(), sampleClient.SamplecontrollerV1alpha1().Foos(namespace) // The test's own context is done.
	expectNoError(t, poll(ctx, convergence, func() error {
		err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return err
		}
		foos, err := client.List(ctx, metav1.ListOptions{})
		if err == nil && len(foos.Items) > 0 {
			err = fmt.Errorf("namespace %s still has %d Foos", namespace, len(foos.Items))
		}
		return err
	}))
}

// userActions are actions on an existing Foo, on Deployments in its namespace, or on both. Names often conflict.
var userActions = []struct {
	name string
	do   func(u *users, foo *declaredFoo)
}{
	{"scale", func(u *users, foo *declaredFoo) { u.scale(foo, u.randomReplicas()) }},
	{"scale up and down", func(u *users, foo *declaredFoo) {
		before := foo.spec.Replicas
		u.scale(foo, ptr.To[int32](4))
		u.scale(foo, before)
	}},
	{"rename", func(u *users, foo *declaredFoo) { u.rename(foo, u.randomName()) }},
	{"rename back and forth", func(u *users, foo *declaredFoo) {
		before := foo.spec.DeploymentName
		u.rename(foo, u.randomName())
		u.rename(foo, before)
	}},
	{"swap names", func(u *users, foo *declaredFoo) {
		other := u.randomNeighbor(foo)
		name := other.spec.DeploymentName
		u.rename(other, foo.spec.DeploymentName)
		u.rename(foo, name)
	}},
	{"delete", func(u *users, foo *declaredFoo) { u.delete(foo, u.randomPropagation()) }},
	{"delete and recreate", func(u *users, foo *declaredFoo) {
		u.delete(foo, u.randomPropagation())
		u.declare(foo)
	}},
	{"scale the Deployment", func(u *users, foo *declaredFoo) {
		u.patchDeployment(foo, fmt.Sprintf(`{"spec":{"replicas":%d}}`, u.random.IntN(4)))
	}},
	{"edit the Deployment", func(u *users, foo *declaredFoo) {
		u.patchDeployment(foo, `{"metadata":{"labels":{"edited":"by-hand"}},"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"other"}]}}}}`)
	}},
	{"delete the Deployment", func(u *users, foo *declaredFoo) { u.deleteDeployment(foo.namespace, foo.spec.DeploymentName) }},
	{"orphan the Deployment", func(u *users, foo *declaredFoo) { u.patchDeployment(foo, `{"metadata":{"ownerReferences":null}}`) }},
	{"orphan and adopt the Deployment", func(u *users, foo *declaredFoo) {
		u.patchDeployment(foo, `{"metadata":{"ownerReferences":null}}`)
		u.adopt(foo)
	}},
	{"adopt a Deployment", (*users).adopt},
	{"create a Deployment", func(u *users, foo *declaredFoo) { u.createDeployment(foo.namespace, u.randomName()) }},
	{"delete a Deployment", func(u *users, foo *declaredFoo) { u.deleteDeployment(foo.namespace, u.randomName()) }},
}

func (u *users) randomPropagation() metav1.DeletionPropagation {
	all := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	return all[u.random.IntN(len(all))]
}

// randomReplicas returns a number of replicas, or nil for a Foo that does not manage it.
func (u *users) randomReplicas() *int32 {
	if n := u.random.Int32N(4); n > 0 {
		return &n
	}
	return nil
}

// randomName returns one of the initial Deployment names, or one that no Foo had initially.
func (u *users) randomName() string { return initialName(u.random.IntN(foosPerNamespace + 1)) }

func initialName(i int) string { return fmt.Sprintf("first-%d", i) }

// randomNeighbor returns another Foo of the same namespace.
func (u *users) randomNeighbor(foo *declaredFoo) *declaredFoo {
	at := slices.Index(u.foos, foo)
	return u.foos[at/foosPerNamespace*foosPerNamespace+(at+1+u.random.IntN(foosPerNamespace-1))%foosPerNamespace]
}

// step performs a random action and returns its name.
func (u *users) step() string {
	u.t.Helper()
	foo := u.foos[u.random.IntN(len(u.foos))]
	action := userActions[u.random.IntN(len(userActions))]
	if !foo.exists {
		logStep(u.t, fmt.Sprintf("create %s", foo))
		u.declare(foo)
		return "create"
	}
	logStep(u.t, fmt.Sprintf("%s %s", action.name, foo))
	action.do(u, foo)
	return action.name
}

func (u *users) scale(foo *declaredFoo, replicas *int32) {
	u.t.Helper()
	foo.spec.Replicas = replicas
	u.declare(foo)
}

func (u *users) rename(foo *declaredFoo, name string) {
	u.t.Helper()
	foo.spec.DeploymentName = name
	u.declare(foo)
}

// declare creates or updates a Foo.
func (u *users) declare(foo *declaredFoo) {
	u.t.Helper()
	client := sampleClient.SamplecontrollerV1alpha1().Foos(foo.namespace)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"deploymentName": foo.spec.DeploymentName, "replicas": foo.spec.Replicas}})
	requireNoError(u.t, err)
	u.retry(func(ctx context.Context) (runtime.Object, error) {
		if foo.exists {
			return client.Patch(ctx, foo.name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		created, err := client.Create(ctx, &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: foo.name}, Spec: foo.spec}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		// It may have been created by an attempt whose response was lost.
		existing, getErr := client.Get(ctx, foo.name, metav1.GetOptions{})
		if getErr == nil && existing.DeletionTimestamp == nil && equality.Semantic.DeepEqual(existing.Spec, foo.spec) {
			return existing, nil
		}
		return nil, err
	})
	foo.exists = true
}

func (u *users) delete(foo *declaredFoo, propagation metav1.DeletionPropagation) {
	u.t.Helper()
	u.retry(func(ctx context.Context) (runtime.Object, error) {
		return nil, sampleClient.SamplecontrollerV1alpha1().Foos(foo.namespace).Delete(ctx, foo.name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	})
	foo.exists = false
}

// patchDeployment patches the Deployment that a Foo names, if it exists.
func (u *users) patchDeployment(foo *declaredFoo, patch string) {
	u.t.Helper()
	u.retry(func(ctx context.Context) (runtime.Object, error) {
		return kubeClient.AppsV1().Deployments(foo.namespace).Patch(ctx, foo.spec.DeploymentName, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

// adopt makes a Foo the controller of the Deployment that it names, if that exists, has no owner and selects the Pods of the Foo.
func (u *users) adopt(foo *declaredFoo) {
	u.t.Helper()
	client := kubeClient.AppsV1().Deployments(foo.namespace)
	u.retry(func(ctx context.Context) (runtime.Object, error) {
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
	u.retry(func(ctx context.Context) (runtime.Object, error) {
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
	u.retry(func(ctx context.Context) (runtime.Object, error) {
		return nil, kubeClient.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// retry retries a request until it succeeds or its object does not exist. It waits for each response, so that requests are not
// reordered.
func (u *users) retry(do func(ctx context.Context) (runtime.Object, error)) {
	u.t.Helper()
	eventually(u.t, actionTimeout, func() error {
		ctx, cancel := context.WithTimeout(u.t.Context(), 10*time.Second)
		defer cancel()
		object, err := do(ctx)
		if err == nil && object != nil {
			u.history.addResponses(faults.Request{Object: object})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
