// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestRenamePrunesAfterRollout(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "renamed", "old", 2)
	history := watchDeployments(t, namespace)

	rename(t, namespace, "renamed", "new")
	waitForReplicas(t, namespace, "renamed", 2)
	waitForDeployments(t, namespace, "new")
	waitForEvent(t, getFoo(t, namespace, "renamed"), corev1.EventTypeNormal, "Pruned", `Deployment "old" deleted: it is superseded by "new"`)
	history.checkAlwaysAvailable(2)
}

func TestRepeatedRenames(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "renamed", "a", 1)
	first := getDeployment(t, namespace, "a").UID

	// The quota keeps the other Deployments from becoming available.
	kubectl(t, "create", "quota", "-n", namespace, "full", "--hard=pods=1")
	for _, name := range []string{"b", "c", "a"} {
		rename(t, namespace, "renamed", name)
	}
	kubectl(t, "delete", "-n", namespace, "quota/full")
	waitForReplicas(t, namespace, "renamed", 1)
	waitForDeployments(t, namespace, "a")
	if got := getDeployment(t, namespace, "a").UID; got != first {
		t.Error("Deployment a was replaced although the Foo was renamed back")
	}
	for _, name := range []string{"b", "c", "d"} {
		rename(t, namespace, "renamed", name)
	}
	waitForReplicas(t, namespace, "renamed", 1)
	waitForDeployments(t, namespace, "d")
}

func TestRenameToTakenName(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "holder", "taken", 1)
	createReadyFoo(t, namespace, "mover", "free", 1)

	rename(t, namespace, "mover", "taken")
	waitForStalled(t, namespace, "mover", "ErrResourceExists")
	waitForDeployments(t, namespace, "free", "taken")
	// The status goes on to report the Deployment that serves.
	if status := getFoo(t, namespace, "mover").Status; status.Replicas != 1 || status.AvailableReplicas != 1 ||
		status.Selector != "app=nginx,controller=mover" {
		t.Errorf("status = %+v, want that of the Deployment with the earlier name", status)
	}
	kubectl(t, "scale", "-n", namespace, "deployment/free", "--replicas=2")
	eventually(t, convergence, func() error {
		if status := getFoo(t, namespace, "mover").Status; status.Replicas != 2 || status.AvailableReplicas != 2 {
			return fmt.Errorf("status = %+v, want 2 replicas", status)
		}
		return nil
	})
	kubectl(t, "delete", "-n", namespace, "foo/holder")
	waitForReplicasWithin(t, 2*convergence, namespace, "mover", 1)
	waitForDeployments(t, namespace, "taken")
}

func TestRenameKeepsUnsetReplicas(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "renamed", "old", 0)
	waitForReplicas(t, namespace, "renamed", 1)
	kubectl(t, "scale", "-n", namespace, "deployment/old", "--replicas=8")
	waitForReplicas(t, namespace, "renamed", 8)
	history := watchDeployments(t, namespace)

	rename(t, namespace, "renamed", "new")
	waitForReplicas(t, namespace, "renamed", 8)
	waitForDeployments(t, namespace, "new")
	history.checkAlwaysAvailable(8)
}

// deploymentHistory records all states of the Deployments of a namespace.
type deploymentHistory struct {
	t      *testing.T
	lock   sync.Mutex
	states []map[string]int32 // available replicas by name
}

// watchDeployments starts to record the Deployments of a namespace.
func watchDeployments(t *testing.T, namespace string) *deploymentHistory {
	t.Helper()
	client := kubeClient.AppsV1().Deployments(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	requireNoError(t, err)
	current := map[string]int32{}
	for _, deployment := range list.Items {
		current[deployment.Name] = deployment.Status.AvailableReplicas
	}
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	requireNoError(t, err)
	t.Cleanup(watcher.Stop)
	history := &deploymentHistory{t: t, states: []map[string]int32{current}}
	go func() {
		for event := range watcher.ResultChan() {
			deployment, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				return
			}
			current = maps.Clone(current)
			if event.Type == watch.Deleted {
				delete(current, deployment.Name)
			} else {
				current[deployment.Name] = deployment.Status.AvailableReplicas
			}
			history.lock.Lock()
			history.states = append(history.states, current)
			history.lock.Unlock()
		}
	}()
	return history
}

// checkAlwaysAvailable waits until a single Deployment is left, and fails the test if at any time no Deployment had this number of
// replicas available.
func (h *deploymentHistory) checkAlwaysAvailable(replicas int32) {
	h.t.Helper()
	eventually(h.t, convergence, func() error {
		h.lock.Lock()
		defer h.lock.Unlock()
		if last := h.states[len(h.states)-1]; len(last) != 1 || len(h.states) < 3 {
			return fmt.Errorf("the latest state is %v, want one Deployment", last)
		}
		return nil
	})
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, state := range h.states {
		if len(state) == 0 || slices.Max(slices.Collect(maps.Values(state))) < replicas {
			h.t.Errorf("available replicas were %v at one point, want at least %d in one Deployment", state, replicas)
		}
	}
}
