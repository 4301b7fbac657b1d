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

func TestARenamedFooKeepsItsOldDeploymentUntilTheNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "renamed", "old", 2)
	wantReplicas(t, namespace, "renamed", 2)
	history := watchDeployments(t, namespace)

	rename(t, namespace, "renamed", "new")
	wantReplicas(t, namespace, "renamed", 2)
	wantOnlyDeployments(t, namespace, "new")
	wantEvent(t, getFoo(t, namespace, "renamed"), corev1.EventTypeNormal, "Pruned", `Deployment "old" deleted, because the Foo now names "new"`)
	history.wantAlwaysOneAvailable(2)
}

func TestRenamesInARowAndBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "restless", "a", 1)
	wantReplicas(t, namespace, "restless", 1)
	first := getDeployment(t, namespace, "a").UID

	// So that none of the others can take over before the Foo comes back.
	kubectl(t, "create", "quota", "-n", namespace, "full", "--hard=pods=1")
	for _, name := range []string{"b", "c", "a"} {
		rename(t, namespace, "restless", name)
	}
	kubectl(t, "delete", "-n", namespace, "quota/full")
	wantReplicas(t, namespace, "restless", 1)
	wantOnlyDeployments(t, namespace, "a")
	if got := getDeployment(t, namespace, "a").UID; got != first {
		t.Error("the Deployment of a name that the Foo came back to was replaced")
	}
	for _, name := range []string{"b", "c", "d"} {
		rename(t, namespace, "restless", name)
	}
	wantReplicas(t, namespace, "restless", 1)
	wantOnlyDeployments(t, namespace, "d")
}

func TestARenameToATakenNameKeepsTheOldDeploymentServing(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "holder", "taken", 1)
	wantReplicas(t, namespace, "holder", 1)
	createFoo(t, namespace, "mover", "free", 1)
	wantReplicas(t, namespace, "mover", 1)

	rename(t, namespace, "mover", "taken")
	wantReason(t, namespace, "mover", "ErrResourceExists")
	wantOnlyDeployments(t, namespace, "free", "taken")
	kubectl(t, "delete", "-n", namespace, "foo/holder")
	wantReplicasWithin(t, 2*convergence, namespace, "mover", 1)
	wantOnlyDeployments(t, namespace, "taken")
}

// deploymentHistory is what a watch has seen of the Deployments of a namespace.
type deploymentHistory struct {
	t      *testing.T
	lock   sync.Mutex
	states []map[string]int32 // Available replicas by name.
}

// watchDeployments records every state that the Deployments of a namespace, taken together, pass through from now on.
func watchDeployments(t *testing.T, namespace string) *deploymentHistory {
	t.Helper()
	client := kubeClient.AppsV1().Deployments(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current := map[string]int32{}
	for _, deployment := range list.Items {
		current[deployment.Name] = deployment.Status.AvailableReplicas
	}
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
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

// wantAlwaysOneAvailable waits until the watch has seen just one Deployment left after there were more, and fails the test
// if at any time no Deployment had so many replicas available.
func (h *deploymentHistory) wantAlwaysOneAvailable(replicas int32) {
	h.t.Helper()
	eventually(h.t, convergence, func() error {
		h.lock.Lock()
		defer h.lock.Unlock()
		if last := h.states[len(h.states)-1]; len(last) != 1 || len(h.states) < 3 {
			return fmt.Errorf("the watch has seen %v last", last)
		}
		return nil
	})
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, state := range h.states {
		if len(state) == 0 || slices.Max(slices.Collect(maps.Values(state))) < replicas {
			h.t.Errorf("at one time the available replicas were %v, want at least %d in one Deployment", state, replicas)
		}
	}
}
