// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const otherImage = "spec: {template: {spec: {containers: [{name: c, image: other}]}}}"

// withPods creates a workload, and waits until its Pods run.
func (c *cluster) withPods(text string) *Object {
	c.Helper()
	c.pods() // From now on, workloads have some.
	o := c.create(text)
	advance(time.Minute)
	return o
}

// TestPods shows which Pods a workload has after what happens to it, as their names, without random ends, images and phases.
func TestPods(t *testing.T) {
	scaleTo := func(n int) func(c *cluster, o *Object) {
		return func(c *cluster, o *Object) { c.merge(o, fmt.Sprintf("spec: {replicas: %d}", n)) }
	}
	replace := func(c *cluster, o *Object) { c.merge(o, otherImage) }
	remove := func(c *cluster, o *Object) {
		if err := c.kube.AppsV1().StatefulSets("default").Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		text string
		do   func(c *cluster, o *Object)
		want string
	}{
		"Deployment":            {deployment, nil, "a-<hash>-*/c:1/Running"},
		"Deployment, scaled":    {deployment, scaleTo(2), "a-<hash>-*/c:1/Running a-<hash>-*/c:1/Running"},
		"Deployment, template":  {deployment, replace, "a-<hash>-*/other/Running"},
		"ReplicaSet":            {replicaSet, nil, "a-*/c:1/Running"},
		"ReplicaSet, template":  {replicaSet, replace, "a-*/c:1/Running"},
		"StatefulSet":           {stateful, scaleTo(3), "a-0/c:1/Running a-1/c:1/Running a-2/c:1/Running"},
		"StatefulSet, scaled":   {stateful, func(c *cluster, o *Object) { scaleTo(12)(c, o); advance(time.Minute); scaleTo(1)(c, o) }, "a-0/c:1/Running"},
		"StatefulSet, template": {stateful, replace, "a-0/other/Running"},
		"StatefulSet, deleted":  {stateful, remove, ""},
		"DaemonSet":             {daemonSet, nil, "a-*/c:1/Running"},
		"DaemonSet, template":   {daemonSet, replace, "a-*/other/Running"},
		"Job":                   {job, func(c *cluster, o *Object) { c.create(strings.Replace(job, "name: a", "name: b", 1)) }, "b-*/c/Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				o := c.create(test.text)
				advance(time.Minute)
				if n := len(c.List(pods, "default")); n > 0 {
					t.Errorf("there are %d Pods before a client asks for some", n)
				}
				c.pods()
				advance(time.Minute)
				if test.do != nil {
					test.do(c, o)
					advance(time.Minute)
				}
				if got := c.pods(); got != test.want {
					t.Errorf("the Pods are %s, want %s", got, test.want)
				}
				version := c.ResourceVersion()
				advance(time.Hour)
				if c.ResourceVersion() != version {
					t.Errorf("it is never silent: %d after %d", c.ResourceVersion(), version)
				}
			})
		})
	}
}

// pods describes all Pods.
func (c *cluster) pods() string {
	c.Helper()
	list, err := c.kube.CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var all []string
	for _, pod := range list.Items {
		name := pod.Name
		if pod.Labels["apps.kubernetes.io/pod-index"] == "" {
			name = pod.GenerateName + "*"
			if hash := pod.Labels["pod-template-hash"]; hash != "" {
				name = strings.Replace(name, hash, "<hash>", 1)
			}
		}
		isReady := slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		})
		if isRunning := pod.Status.Phase == corev1.PodRunning; isReady != isRunning || pod.Status.ContainerStatuses[0].Ready != isRunning {
			c.Errorf("%s is %s, and ready: %t", pod.Name, pod.Status.Phase, isReady)
		}
		all = append(all, fmt.Sprintf("%s/%s/%s", name, pod.Spec.Containers[0].Image, pod.Status.Phase))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestDeletedPod deletes a Pod of a workload: it is created again, and the workload is not available meanwhile.
func TestDeletedPod(t *testing.T) {
	for name, text := range map[string]string{"Deployment": deployment, "StatefulSet": stateful} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				o := c.withPods(text)
				c.expect(c.get(o), map[string]string{"status.availableReplicas": "1"})
				before := c.List(pods, "default")[0]
				var lowest int64 = 1
				c.Observe(committed(func(change *Change) {
					if change.New.GetKind() == name {
						lowest = min(lowest, number(change.New, "status", "availableReplicas"))
					}
				}))
				if err := c.kube.CoreV1().Pods("default").Delete(c.ctx, before.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				advance(time.Minute)
				after := c.List(pods, "default")
				if len(after) != 1 || after[0].GetUID() == before.GetUID() || lowest != 0 {
					t.Errorf("after %s there are %v, and at least %d were available", before.GetName(), after, lowest)
				}
				c.expect(c.get(o), map[string]string{"status.availableReplicas": "1"})
			})
		})
	}
}

// TestReadyPods changes the template of a workload with three Pods: only when one is ready, the next one is replaced.
func TestReadyPods(t *testing.T) {
	for text, want := range map[string]int64{deployment: 3, stateful: 2} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := c.withPods(strings.Replace(text, "selector:", "replicas: 3, selector:", 1))
			var lowest int64 = 3
			c.Observe(committed(func(change *Change) {
				if change.New.GetKind() == o.GetKind() {
					lowest = min(lowest, number(change.New, "status", "readyReplicas"))
				}
			}))
			c.merge(o, otherImage)
			advance(time.Minute)
			c.expect(c.get(o), map[string]string{"status.readyReplicas": "3", "status.updatedReplicas": "3"})
			if lowest != want {
				t.Errorf("of the %s, %d Pods are ready at least, want %d", o.GetKind(), lowest, want)
			}
		})
	}
}

// TestScaledDownRollout scales a StatefulSet down while it is rolled out: those with the lowest ordinals stay.
func TestScaledDownRollout(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.withPods(strings.Replace(stateful, "selector:", "replicas: 6, selector:", 1))
		c.merge(o, otherImage)
		advance(3 * time.Second)
		c.merge(o, "spec: {replicas: 2}")
		advance(time.Minute)
		if got, want := c.pods(), "a-0/other/Running a-1/other/Running"; got != want {
			t.Errorf("the Pods are %s, want %s", got, want)
		}
	})
}

// TestOrphanedPods deletes a workload without its Pods, and creates it again; then a user releases a Pod. It adopts them.
func TestOrphanedPods(t *testing.T) {
	for _, text := range []string{deployment, replicaSet, stateful} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := c.withPods(text)
			before := c.List(pods, "default")[0]
			if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}); err != nil {
				t.Fatal(err)
			}
			advance(time.Minute)
			again := c.create(text)
			for range 2 {
				advance(time.Minute)
				all := c.List(pods, "default")
				if len(all) != 1 || all[0].GetUID() != before.GetUID() || !metav1.IsControlledBy(all[0], again) {
					t.Errorf("the Pods of the %s are %v", o.GetKind(), all)
				}
				c.expect(c.get(again), map[string]string{"status.availableReplicas": "1"})
				c.merge(before, "metadata: {ownerReferences: null}")
			}
		})
	}
}

// TestReplaceOnDelete has a StatefulSet that replaces only Pods that others delete.
func TestReplaceOnDelete(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.withPods(strings.Replace(stateful, "selector:", "replicas: 2, updateStrategy: {type: OnDelete}, selector:", 1))
		c.merge(o, otherImage)
		advance(time.Minute)
		if err := c.kube.CoreV1().Pods("default").Delete(c.ctx, "a-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute)
		if got, want := c.pods(), "a-0/other/Running a-1/c:1/Running"; got != want {
			t.Errorf("the Pods are %s, want %s", got, want)
		}
	})
}

// TestNoOrphan creates Pods that a workload selects, and that it does not adopt: they have another name, or no hash of a Pod template.
func TestNoOrphan(t *testing.T) {
	for _, text := range []string{deployment, stateful} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			c.withPods(text)
			own := c.create(strings.Replace(pod, "name: a,", "name: b, labels: {l: a},", 1))
			advance(time.Minute)
			if metav1.GetControllerOf(c.get(own)) != nil || len(c.List(pods, "default")) != 2 {
				t.Errorf("the Pods are %s", c.pods())
			}
		})
	}
}

// TestSuspendedPods suspends a Job that runs: it has no Pod then, and another one, with another address, when it is resumed.
func TestSuspendedPods(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		c.pods()
		o := c.create(job)
		advance(jobDuration / 2)
		before := c.List(pods, "default")[0]
		c.merge(o, "spec: {suspend: true}")
		advance(time.Minute)
		if got := c.pods(); got != "" {
			t.Errorf("while it is suspended, the Pods are %s", got)
		}
		c.merge(o, "spec: {suspend: false}")
		advance(time.Minute)
		after := c.List(pods, "default")
		if len(after) != 1 || text(after[0], "status", "podIP") == "" || text(after[0], "status", "podIP") == text(before, "status", "podIP") {
			t.Errorf("after %v, the Pods are %v", before, after)
		}
	})
}
