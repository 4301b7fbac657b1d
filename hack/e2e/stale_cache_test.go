// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// watchedResources are the combinations of resources whose watches can fail.
var watchedResources = [][]string{{"foos"}, {"deployments"}, {"foos", "deployments"}}

// TestRestartWithStaleCache restarts the controller after a change against an API server whose watch cache is still in the state
// before that change.
func TestRestartWithStaleCache(t *testing.T) {
	t.Parallel()
	for _, scenario := range scenarios {
		if scenario.name == "create" || strings.HasPrefix(scenario.name, "conflict") {
			continue // They start without a Foo, so that there is no stale state.
		}
		for _, resources := range watchedResources {
			runCase(t, fmt.Sprintf("%s %s", scenario.name, strings.Join(resources, " ")), func(t *testing.T) {
				t.Parallel()
				r := startScenario(t, scenario, 0)
				r.proxy.ServeStale(resources...)
				baseline := r.execute(t)

				history := watchHistory(t, r.namespace)
				r.proxy.ResetRequests()
				r.restart()
				r.controller.waitForLog("Started workers")
				t.Logf("writes from the stale cache: %q", r.stableWrites(t))
				r.proxy.ServeCurrent()
				r.probe(t)
				// Writes from the stale cache have to be reverted.
				checkWriteCount(t, r.verify(t, history), baseline, probeWrites...)
			})
		}
	}
}

// firstIsReady waits for the state in which all but one of missedEvents begin and end.
var firstIsReady = fooIsReady("first", 1, 2*convergence)

// missedEvents are changes that leave little or no trace in the final state.
var missedEvents = []scenario{
	{
		name:    "Foo created and deleted",
		prepare: func(*testing.T, string) {},
		change: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			kubectl(t, "delete", "-n", namespace, "foo/foo")
		},
		waitForResult: func(t *testing.T, namespace string) { waitForDeployments(t, namespace) },
	},
	{
		name:    "Foo scaled up and down",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=5")
			kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=1")
		},
		waitForResult: firstIsReady,
	},
	{
		name:    "Foo renamed back and forth",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			rename(t, namespace, "foo", "second")
			rename(t, namespace, "foo", "first")
		},
		waitForResult: firstIsReady,
	},
	{
		name:    "Foo deleted and recreated",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "foo/foo")
			createFoo(t, namespace, "foo", "first", 1)
		},
		waitForResult: firstIsReady,
	},
	{
		name:    "Deployment scaled up and down",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			kubectl(t, "scale", "-n", namespace, "deployment/first", "--replicas=3")
			kubectl(t, "scale", "-n", namespace, "deployment/first", "--replicas=1")
		},
		waitForResult: firstIsReady,
	},
	{
		name:    "Deployment orphaned and adopted",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			setController(t, namespace, "first", nil)
			setController(t, namespace, "first", getFoo(t, namespace, "foo"))
		},
		waitForResult: firstIsReady,
	},
	{
		name:    "Deployment replaced and deleted",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "deployment/first")
			// A controller whose watch of Deployments works may recreate it first.
			if output, err := tryKubectl(t, "", "create", "deployment", "-n", namespace, "first", "--image=other"); err != nil && !strings.Contains(output, "already exists") {
				t.Fatal(output)
			}
			kubectl(t, "delete", "-n", namespace, "deployment/first")
		},
		waitForResult: firstIsReady,
	},
}

// TestMissedWatchEvents makes changes while watches are interrupted. Afterwards the watches resume with all events, or the resources
// are listed again and only the final state is seen.
func TestMissedWatchEvents(t *testing.T) {
	t.Parallel()
	for _, scenario := range missedEvents {
		for _, resources := range watchedResources {
			for _, expired := range []bool{false, true} {
				runCase(t, fmt.Sprintf("%s %s expired=%v", scenario.name, strings.Join(resources, " "), expired), func(t *testing.T) {
					t.Parallel()
					r := startScenario(t, scenario, 0)
					history := watchHistory(t, r.namespace)
					r.proxy.ResetRequests()
					r.proxy.InterruptWatches(resources...)
					scenario.change(t, r.namespace)
					r.proxy.ResumeWatches(expired)
					r.probe(t)
					// No more than for a new Foo whose temporary change is applied and reverted.
					checkWriteCount(t, r.verify(t, history), newFooWrites, probeWrites...)
				})
			}
		}
	}
}

// A Deployment that the cache has as available may be gone: then the superseded one is the only one that serves, and is kept.
func TestPruneWithStaleCache(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	proxy := startProxy(t, user, 0)
	controller := startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s")
	controller.waitForLog("Started workers")
	createReadyFoo(t, namespace, "foo", "first", 1)
	proxy.SetRules(faults.Rule{
		Verbs: []string{"delete"}, Resources: []string{"deployments"},
		Fault: faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	})
	rename(t, namespace, "foo", "second")
	controller.waitForLog("Error syncing Foo") // A prune was tried, so the second Deployment is available in the cache.
	proxy.InterruptWatches("deployments")
	kubectl(t, "delete", "-n", namespace, "deployment/second")
	proxy.SetRules()
	controller.waitForLog(`second\" has changed`)
	waitForDeployments(t, namespace, "first")
	proxy.ResumeWatches(false)
	waitForDeployments(t, namespace, "second")
}

// newFooWrites are the writes for a new Foo, and probeWrites those that probe causes.
var (
	newFooWrites = []string{"create deployments", "update foos/status", "update foos/status", "create events"}
	probeWrites  = newFooWrites
)

// probe waits until the controller has reconciled a new Foo, for which all of its watches must work, and deletes that Foo.
func (r *scenarioRun) probe(t *testing.T) {
	t.Helper()
	createFoo(t, r.namespace, "probe", "probe", 1)
	waitForReplicasWithin(t, 2*convergence, r.namespace, "probe", 1)
	kubectl(t, "delete", "-n", r.namespace, "foo/probe")
	waitForGarbageCollection(t, 2*convergence, r.namespace, "probe")
}
