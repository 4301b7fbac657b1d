// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Not parallel: on a machine that is busy the kubelets take longer than the controller gathers their reports.
func TestAFooGetsToReadyWithTheFewestRequests(t *testing.T) {
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "frugal", "frugal", 1)
	wantReplicas(t, namespace, "frugal", 1)
	wantEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	requests := settledRequestsOf(t, namespace)
	for prefix, most := range map[string]int{"create deployments": 1, "update foos/status": 2, "create events": 1} {
		if got := countPrefix(requests, prefix); got == 0 || got > most {
			t.Errorf("%d requests to %s, want at most %d", got, prefix, most)
		}
	}
	if len(requests) > 4 {
		t.Errorf("requests = %q, want at most four", requests)
	}

	kubectl(t, "scale", "-n", namespace, "foo/frugal", "--replicas=3")
	wantReplicas(t, namespace, "frugal", 3)
	wantEventCount(t, foo, "Synced", 2)
	scale := settledRequestsOf(t, namespace)[len(requests):]
	for _, request := range scale {
		verbAndResource := strings.Join(strings.Fields(request)[:2], " ")
		if !slices.Contains([]string{"patch deployments", "update foos/status", "patch events"}, verbAndResource) {
			t.Errorf("request %q for a scale", request)
		}
	}
	if got := countPrefix(scale, "patch deployments"); got != 1 {
		t.Errorf("%d writes of the Deployment for one scale", got)
	}
}

func TestASteadyStateMakesNoRequests(t *testing.T) {
	t.Parallel()
	const foos = 50
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-resync-period=10s")
	for i := range foos {
		name := fmt.Sprintf("idle-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	for i := range foos {
		wantReplicas(t, namespace, fmt.Sprintf("idle-%d", i), 1)
	}
	// Foos that wait for help are silent too.
	createFoo(t, namespace, "idle-waiting", "idle-0", 1)
	waiting := wantReason(t, namespace, "idle-waiting", "ErrResourceExists")
	wantEvent(t, getFoo(t, namespace, "idle-waiting"), corev1.EventTypeWarning, "ErrResourceExists", waiting.Message)
	for i := range foos {
		wantEvent(t, getFoo(t, namespace, fmt.Sprintf("idle-%d", i)), corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	}

	before, syncs := len(settledRequestsOf(t, namespace)), strings.Count(controller.log.String(), "Finished syncing")
	begun := time.Now()
	eventually(t, 2*time.Minute, func() error {
		if time.Since(begun) < 65*time.Second {
			return errors.New("65 s have not passed")
		}
		return nil
	})
	if requests := settledRequestsOf(t, namespace)[before:]; len(requests) > 0 {
		t.Errorf("requests in the steady state: %q", requests)
	}
	if resynced := strings.Count(controller.log.String(), "Finished syncing") - syncs; resynced < 5*foos {
		t.Errorf("%d syncs in 65 s: the resyncs did not happen, so that the silence proves nothing", resynced)
	}
}
