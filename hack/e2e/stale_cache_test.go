// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/pkg/ownership"
)

// views are the sets of resources whose watches can be out of date.
var views = [][]string{{"foos"}, {"deployments"}, {"foos", "deployments"}}

// TestARestartAgainstAnAPIServerThatLagsBehind plays the scenarios that begin with a Foo, starts the program anew with a view of the world
// from before, and lets it catch up after a while.
func TestARestartAgainstAnAPIServerThatLagsBehind(t *testing.T) {
	for _, scenario := range scenarios {
		if scenario.name == "create" || strings.HasPrefix(scenario.name, "conflict") {
			continue // There is no Foo before that could be remembered.
		}
		for _, view := range views {
			t.Run(fmt.Sprintf("%s %s", scenario.name, strings.Join(view, " ")), func(t *testing.T) {
				t.Parallel()
				w := startWalk(t, scenario)
				w.proxy.Tape(view...)
				faultless := w.play(t)

				history := watchHistory(t, w.namespace)
				w.proxy.Forget()
				w.restart()
				w.program.waitForLog("Started workers")
				t.Logf("before it caught up: %q", w.settledWrites(t))
				w.proxy.CatchUp()
				w.wantAwake(t)
				scenario.settled(t, w.namespace)
				// What the old view seemed to want is done, and undone.
				wantFewWrites(t, w.settledWrites(t), faultless, awakening...)
				scenario.settled(t, w.namespace)
				history.judge(w.proxy.Requests())
				wantHealthy(t, w.program.log.String())
			})
		}
	}
}

// unobserved are acts that leave little or nothing to be seen when they are over.
var unobserved = []scenario{
	{
		name:    "a Foo is created and deleted",
		prepare: func(*testing.T, string) {},
		act: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			kubectl(t, "delete", "-n", namespace, "foo/foo")
		},
		settled: func(t *testing.T, namespace string) { wantOnlyDeployments(t, namespace) },
	},
	{
		name:    "a Foo is scaled up and down",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=5")
			kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=1")
		},
		settled: oneFooSettled,
	},
	{
		name:    "a Foo is renamed and back",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			rename(t, namespace, "foo", "second")
			rename(t, namespace, "foo", "first")
		},
		settled: oneFooSettled,
	},
	{
		name:    "a Foo is deleted and recreated",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "foo/foo")
			createFoo(t, namespace, "foo", "first", 1)
		},
		settled: oneFooSettled,
	},
	{
		name:    "a Deployment is scaled by hand and back",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			kubectl(t, "scale", "-n", namespace, "deployment/first", "--replicas=3")
			kubectl(t, "scale", "-n", namespace, "deployment/first", "--replicas=1")
		},
		settled: oneFooSettled,
	},
	{
		name:    "a Deployment is orphaned and adopted",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			owner, err := json.Marshal(metav1.NewControllerRef(getFoo(t, namespace, "foo"), ownership.FooKind))
			if err != nil {
				t.Fatal(err)
			}
			for _, owners := range []string{"", string(owner)} {
				kubectl(t, "patch", "-n", namespace, "deployment/first", "--type=merge", "-p", fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owners))
			}
		},
		settled: oneFooSettled,
	},
	{
		name:    "a Deployment is replaced by someone else's, which goes",
		prepare: oneFoo,
		act: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "deployment/first")
			// A program that still sees Deployments may be faster.
			if output, err := tryKubectl(t, "", "create", "deployment", "-n", namespace, "first", "--image=other"); err != nil && !strings.Contains(output, "already exists") {
				t.Fatal(output)
			}
			kubectl(t, "delete", "-n", namespace, "deployment/first")
		},
		settled: oneFooSettled,
	},
}

func oneFoo(t *testing.T, namespace string) {
	t.Helper()
	createFoo(t, namespace, "foo", "first", 1)
	wantReplicas(t, namespace, "foo", 1)
}

func oneFooSettled(t *testing.T, namespace string) {
	t.Helper()
	wantReplicasWithin(t, 2*convergence, namespace, "foo", 1)
	wantOnlyDeployments(t, namespace, "first")
}

// TestWhatHappensWhileWatchesAreCutIsMadeUpFor cuts the watches, and lets them come back with all that has happened, or with the end of it
// alone.
func TestWhatHappensWhileWatchesAreCutIsMadeUpFor(t *testing.T) {
	for _, scenario := range unobserved {
		for _, view := range views {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s gone=%v", scenario.name, strings.Join(view, " "), gone), func(t *testing.T) {
					t.Parallel()
					w := startWalk(t, scenario)
					history := watchHistory(t, w.namespace)
					w.proxy.Forget()
					w.proxy.CutWatches(view...)
					scenario.act(t, w.namespace)
					w.proxy.MendWatches(gone)
					w.wantAwake(t)
					scenario.settled(t, w.namespace)
					// At most as if the Foo were new, and what it was for the moment taken back.
					wantFewWrites(t, w.settledWrites(t), newFoo, awakening...)
					scenario.settled(t, w.namespace)
					history.judge(w.proxy.Requests())
					wantHealthy(t, w.program.log.String())
				})
			}
		}
	}
}

// newFoo are the writes that a new Foo takes, and awakening those of wantAwake.
var (
	newFoo    = []string{"create deployments", "update foos/status", "update foos/status", "create events"}
	awakening = newFoo
)

// wantAwake waits until the program has served a new Foo, for which all of its watches must work, and that Foo is gone again.
func (w *walk) wantAwake(t *testing.T) {
	t.Helper()
	createFoo(t, w.namespace, "awake", "awake", 1)
	wantReplicasWithin(t, 2*convergence, w.namespace, "awake", 1)
	kubectl(t, "delete", "-n", w.namespace, "foo/awake")
	eventually(t, 2*convergence, func() error {
		if _, err := findDeployment(t, w.namespace, "awake"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Deployment of a deleted Foo is still there (%v)", err)
		}
		return nil
	})
}
