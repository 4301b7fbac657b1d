// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"

	"k8s.io/sample-controller/hack/simulation"
)

// TestSimulationIsTrue makes the same requests to the local Kubernetes and to a simulated one: clients must see the same responses and
// watch events. No controller of Foos runs.
func TestSimulationIsTrue(t *testing.T) {
	for _, scenario := range fidelityScenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			reality := observe(t, adminConfig, namespace, scenario.run)
			synctest.Test(t, func(t *testing.T) {
				simulated := observe(t, simulation.NewCluster().Config("user"), namespace, scenario.run)
				if difference := diff.Diff(reality, simulated); difference != "" {
					t.Errorf("the simulation (+) differs from reality (-):\n%s", difference)
				}
			})
		})
	}
}

var fidelityScenarios = []struct {
	name string
	run  func(c *client)
}{
	{"scale", func(c *client) {
		foo, deployment := c.create("a")
		foo = c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = new(int32(3)) })
		c.patch(deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		c.wait("a", isAvailable(3))
		foo.Status, foo.Spec.DeploymentName = samplev1alpha1.FooStatus{AvailableReplicas: 3, ObservedGeneration: 2}, "ignored"
		foo, _ = c.foos.UpdateStatus(c.ctx, foo, metav1.UpdateOptions{})
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas, foo.Status.AvailableReplicas = nil, 7 })
		c.foos.Patch(c.ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":2},"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		c.foos.List(c.ctx, metav1.ListOptions{})
	}},
	{"status default", func(c *client) {
		foo, _ := c.create("a")
		if foo.Status.ObservedGeneration != -1 {
			c.Errorf("a new Foo has the status %+v, want observedGeneration -1", foo.Status)
		}
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = new(int32(2)) })
		for _, patch := range []string{
			`{"status":{"availableReplicas":1}}`, `{"status":null}`, `{"status":{"observedGeneration":null}}`,
		} {
			c.foos.Patch(c.ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			c.foos.Get(c.ctx, "a", metav1.GetOptions{})
			c.foos.List(c.ctx, metav1.ListOptions{})
		}
	}},
	{"stale writes", func(c *client) {
		foo, deployment := c.create("a")
		label := func(o metav1.Object) { o.SetLabels(map[string]string{"app": "nginx", "note": "new"}) }
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { label(foo) })
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = new(int32(2)) })
		c.foos.UpdateStatus(c.ctx, foo, metav1.UpdateOptions{})
		stale := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, foo.ResourceVersion)
		c.foos.Patch(c.ctx, "a", types.MergePatchType, stale, metav1.PatchOptions{})
		c.patch(deployment, func(d *appsv1.Deployment) { label(d) })
		c.wait("a", isAvailable(1))
		c.patch(deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
		c.deployments.Update(c.ctx, deployment, metav1.UpdateOptions{})
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "" })
		foo, _ = c.foos.Get(c.ctx, "a", metav1.GetOptions{})
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.UID = "another" })
	}},
	{"what exists", func(c *client) {
		foo, _ := c.create("a")
		c.foos.Create(c.ctx, newFoo("a", "a", 1), metav1.CreateOptions{})
		c.createDeployment("a", foo)
		foo.Name = "b"
		c.foos.Create(c.ctx, foo, metav1.CreateOptions{})
	}},
	{"what does not exist", func(c *client) {
		foo, deployment := c.create("a")
		c.foos.Get(c.ctx, "b", metav1.GetOptions{})
		c.foos.Delete(c.ctx, "b", metav1.DeleteOptions{})
		c.deployments.Get(c.ctx, "b", metav1.GetOptions{})
		c.deployments.Delete(c.ctx, "b", metav1.DeleteOptions{})
		c.leases.Get(c.ctx, "b", metav1.GetOptions{})
		foo.Name, deployment.Name = "b", "b"
		c.updateFoo(foo, func(*samplev1alpha1.Foo) {})
		c.foos.UpdateStatus(c.ctx, foo, metav1.UpdateOptions{})
		c.foos.Patch(c.ctx, "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		c.patch(deployment, func(*appsv1.Deployment) {})
		c.deployments.Update(c.ctx, deployment, metav1.UpdateOptions{})
	}},
	{"no-ops", func(c *client) {
		foo, deployment := c.create("a")
		foo = c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Labels = map[string]string{"a": "b"} }) // It stores the status default.
		c.updateFoo(foo, func(*samplev1alpha1.Foo) {})
		c.foos.UpdateStatus(c.ctx, foo, metav1.UpdateOptions{})
		c.foos.UpdateStatus(c.ctx, foo, metav1.UpdateOptions{})
		c.foos.Patch(c.ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		c.patch(deployment, func(*appsv1.Deployment) {})
		c.deployments.Patch(c.ctx, "a", types.StrategicMergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	}},
	{"deletion in the background", deletion(metav1.DeletePropagationBackground)},
	{"deletion in the foreground", deletion(metav1.DeletePropagationForeground)},
	{"deletion that orphans", deletion(metav1.DeletePropagationOrphan)},
	{"deletion with preconditions", func(c *client) {
		foo, deployment := c.create("a")
		for _, preconditions := range []metav1.Preconditions{
			{UID: new(types.UID("another"))}, {UID: &deployment.UID, ResourceVersion: new("1")},
		} {
			c.deployments.Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: &preconditions})
		}
		for _, preconditions := range []metav1.Preconditions{
			{UID: new(types.UID("another"))}, {ResourceVersion: new("1")}, {UID: &foo.UID, ResourceVersion: &foo.ResourceVersion},
		} {
			c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: &preconditions})
		}
		c.wait("a", isGone)
	}},
	{"recreation", func(c *client) {
		foo, _ := c.create("a")
		c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{})
		c.foos.Create(c.ctx, newFoo("a", "a", 2), metav1.CreateOptions{})
		c.updateFoo(foo, func(*samplev1alpha1.Foo) {})
		c.wait("a", func(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) bool {
			return foo.UID != "" && deployment.UID == ""
		})
	}},
	{"finalizer of a user", func(c *client) {
		foo, _ := c.create("a")
		hold := func(finalizers ...string) func(foo *samplev1alpha1.Foo) {
			return func(foo *samplev1alpha1.Foo) { foo.Finalizers = finalizers }
		}
		c.updateFoo(foo, hold("example.com/hold"))
		c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{})
		c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{})
		foo, _ = c.foos.Get(c.ctx, "a", metav1.GetOptions{})
		c.updateFoo(foo, hold("example.com/hold", "example.com/another"))
		foo = c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas, foo.DeletionTimestamp = new(int32(2)), nil })
		c.wait("a", isAvailable(1))
		c.updateFoo(foo, hold())
		c.wait("a", isGone)
	}},
	{"illegal objects", func(c *client) {
		foo, deployment := c.create("a")
		for _, invalid := range []samplev1alpha1.FooSpec{
			{DeploymentName: "Not_A_Name"}, {}, {DeploymentName: "a", Replicas: new(int32(0))}, {DeploymentName: "a", Replicas: new(int32(11))},
		} {
			c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec = invalid })
			c.foos.Create(c.ctx, &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: invalid}, metav1.CreateOptions{})
		}
		c.foos.Create(c.ctx, newFoo("Not_A_Name", "Not_A_Name", 1), metav1.CreateOptions{})
		c.patch(deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(-1)) })
		c.createDeployment("Not_A_Name", foo)
	}},
	{"drift", func(c *client) {
		_, deployment := c.create("a")
		for _, edit := range []func(d *appsv1.Deployment){
			func(d *appsv1.Deployment) { d.Labels = nil },
			func(d *appsv1.Deployment) { d.Annotations = map[string]string{"note": "1"} },
			func(d *appsv1.Deployment) { d.OwnerReferences = nil },
			func(d *appsv1.Deployment) {
				containers := &d.Spec.Template.Spec.Containers
				*containers = append(*containers, corev1.Container{Name: "sidecar", Image: "sidecar:1"})
			},
		} {
			c.patch(deployment, edit)
			_, deployment = c.wait("a", isAvailable(1))
		}
		c.deployments.Patch(c.ctx, "a", types.StrategicMergePatchType, []byte(
			`{"metadata":{"labels":{"app":"nginx"}},"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}`,
		), metav1.PatchOptions{})
		c.wait("a", isAvailable(1))
	}},
	{"leases", func(c *client) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		renew := func(holder string, seconds int) {
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, new(metav1.NewMicroTime(time.Unix(int64(seconds), 1000)))
		}
		renew("x", 1)
		lease, _ = c.leases.Create(c.ctx, lease, metav1.CreateOptions{})
		c.leases.Create(c.ctx, lease, metav1.CreateOptions{})
		stale := lease.DeepCopy()
		for seconds, holder := range []string{"x", "", "y", "y"} {
			renew(holder, seconds/3)
			lease, _ = c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
		}
		c.leases.Update(c.ctx, stale, metav1.UpdateOptions{})
		stale.ResourceVersion = ""
		c.leases.Update(c.ctx, stale, metav1.UpdateOptions{})
		c.leases.Delete(c.ctx, "a", metav1.DeleteOptions{})
		c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
		lease.ResourceVersion = ""
		c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
	}},
	{"watches", func(c *client) {
		foo, _ := c.create("b")
		c.create("a")
		c.record(1, "resourceVersion=1") // It has expired.
		c.record(3, initialEvents)
		c.updateFoo(foo, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = nil })
		c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{})
		c.record(3, "resourceVersion="+foo.ResourceVersion)
		c.wait("a", isGone)
	}},
}

// deletion deletes a Foo, and then a Deployment.
func deletion(policy metav1.DeletionPropagation) func(c *client) {
	return func(c *client) {
		c.create("a")
		c.foos.Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: &policy})
		c.wait("a", func(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) bool {
			if policy != metav1.DeletePropagationOrphan {
				return isGone(foo, deployment)
			}
			return foo.UID == "" && len(deployment.OwnerReferences) == 0
		})
		c.createDeployment("b", nil)
		c.wait("b", isAvailable(1))
		c.deployments.Delete(c.ctx, "b", metav1.DeleteOptions{PropagationPolicy: &policy})
		c.wait("b", isGone)
	}
}
