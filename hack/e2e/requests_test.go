// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Not parallel: on a busy machine Pods become ready later, in more than one status update.
func TestRequestsPerFoo(t *testing.T) {
	namespace := newNamespace(t)
	startController(t, namespace)
	begin := time.Now()
	foo := createReadyFoo(t, namespace, "example", "example", 1)
	// The first status is written at once, and later changes are collected for half a second: two, if the Pod is ready within a second.
	statusUpdates := 1 + int(time.Since(begin)/(500*time.Millisecond))
	waitForEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	requests := stableRequestsIn(t, namespace)
	for prefix, limit := range map[string]int{"create deployments": 1, "update foos/status": statusUpdates, "create events": 1} {
		if got := countPrefix(requests, prefix); got == 0 || got > limit {
			t.Errorf("got %d requests to %s, want 1 to %d", got, prefix, limit)
		}
	}
	if len(requests) > 2+statusUpdates {
		t.Errorf("requests = %q, want at most %d", requests, 2+statusUpdates)
	}

	kubectl(t, "scale", "-n", namespace, "foo/example", "--replicas=3")
	waitForReplicas(t, namespace, "example", 3)
	waitForEventCount(t, foo, "Synced", 2)
	scaleRequests := stableRequestsIn(t, namespace)[len(requests):]
	for _, request := range scaleRequests {
		verbAndResource := strings.Join(strings.Fields(request)[:2], " ")
		if !slices.Contains([]string{"patch deployments", "update foos/status", "patch events"}, verbAndResource) {
			t.Errorf("unexpected request to scale: %q", request)
		}
	}
	if got := countPrefix(scaleRequests, "patch deployments"); got != 1 {
		t.Errorf("got %d patches of the Deployment to scale, want 1", got)
	}
}

func TestSteadyStateMakesNoRequests(t *testing.T) {
	t.Parallel()
	const foos = 50
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-resync-period=1s")
	for i := range foos {
		name := fmt.Sprintf("idle-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	for i := range foos {
		waitForReplicas(t, namespace, fmt.Sprintf("idle-%d", i), 1)
	}
	// A stalled Foo must not cause requests either.
	createFoo(t, namespace, "idle-waiting", "idle-0", 1)
	waiting := waitForStalled(t, namespace, "idle-waiting", "ErrResourceExists")
	waitForEvent(t, getFoo(t, namespace, "idle-waiting"), corev1.EventTypeWarning, "ErrResourceExists", waiting.Message)
	for i := range foos {
		waitForEvent(t, getFoo(t, namespace, fmt.Sprintf("idle-%d", i)), corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	}

	before, syncs := len(stableRequestsIn(t, namespace)), strings.Count(controller.log.String(), "Finished syncing")
	sleep(t, 10*time.Second)
	if requests := stableRequestsIn(t, namespace)[before:]; len(requests) > 0 {
		t.Errorf("requests in steady state: %q", requests)
	}
	if resynced := strings.Count(controller.log.String(), "Finished syncing") - syncs; resynced < 5*foos {
		t.Errorf("got %d syncs in 10 s, want at least 5 resyncs of each Foo", resynced)
	}
}
