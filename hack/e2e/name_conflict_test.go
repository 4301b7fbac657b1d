// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// watchLatency bounds the time from a watch event to the reaction of the controller.
const watchLatency = 2 * time.Second

func TestNameConflict(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other:latest")
	before := getDeployment(t, namespace, "taken")
	controller := startController(t, namespace)
	foo := createFoo(t, namespace, "waiting", "taken", 1)

	message := `Resource "taken" already exists and is not managed by Foo`
	waitForEvent(t, foo, corev1.EventTypeWarning, "ErrResourceExists", message)
	controller.waitForLog(message[len(`Resource "taken" `):])
	eventually(t, convergence, func() error {
		conditions := getFoo(t, namespace, "waiting").Status.Conditions
		ready := meta.FindStatusCondition(conditions, samplev1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "ErrResourceExists" || ready.Message != message ||
			!meta.IsStatusConditionTrue(conditions, samplev1alpha1.ConditionStalled) {
			return fmt.Errorf("conditions = %v", conditions)
		}
		return nil
	})
	checkUnchanged(t, before)

	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	waitForReplicas(t, namespace, "waiting", 1)
	if deployment := getDeployment(t, namespace, "taken"); !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want the waiting Foo", deployment.OwnerReferences)
	}
	if meta.FindStatusCondition(getFoo(t, namespace, "waiting").Status.Conditions, samplev1alpha1.ConditionStalled) != nil {
		t.Error("the Stalled condition was not removed")
	}
}

// Not parallel: it measures latency.
func TestFreedNameIsTakenOver(t *testing.T) {
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	waiting := map[types.UID]string{}
	for i := range 2 {
		name := fmt.Sprintf("waiting-%d", i)
		waiting[createFoo(t, namespace, name, "taken", 1).UID] = name
		// After eleven failed attempts the backoff is five seconds, so that a retry is unlikely to pass for a reaction to the event.
		eventually(t, convergence, func() error {
			count := 0
			for line := range strings.Lines(controller.log.String()) {
				if strings.Contains(line, `result="stalled"`) && strings.Contains(line, fmt.Sprintf(`foo="%s/%s"`, namespace, name)) {
					count++
				}
			}
			if count < 11 {
				return fmt.Errorf("got %d failed attempts, want 11", count)
			}
			return nil
		})
	}

	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	var winner string
	eventually(t, watchLatency, func() error {
		deployment, err := findDeployment(t, namespace, "taken")
		if err != nil {
			return err
		}
		owner := metav1.GetControllerOf(deployment)
		if owner == nil {
			return errors.New("the Deployment has no controller yet")
		}
		winner = waiting[owner.UID]
		delete(waiting, owner.UID)
		return nil
	})
	waitForReplicas(t, namespace, winner, 1)

	// A change of the controller reference must be noticed as well.
	for _, loser := range waiting {
		setController(t, namespace, "taken", getFoo(t, namespace, loser))
		eventually(t, watchLatency, func() error {
			ready := meta.FindStatusCondition(getFoo(t, namespace, loser).Status.Conditions, samplev1alpha1.ConditionReady)
			if ready.Reason == "ErrResourceExists" {
				return fmt.Errorf("%s is still waiting: %s", loser, ready.Message)
			}
			return nil
		})
		waitForStalled(t, namespace, winner, "ErrResourceExists")
	}
}

func TestNameOfDeletedFooIsTakenOver(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "first", "taken", 1)
	second := createFoo(t, namespace, "second", "taken", 2)
	waitForStalled(t, namespace, "second", "ErrResourceExists")
	kubectl(t, "delete", "-n", namespace, "foo/first")
	waitForReplicasWithin(t, 2*convergence, namespace, "second", 2)
	if !metav1.IsControlledBy(getDeployment(t, namespace, "taken"), second) {
		t.Error("the Deployment is not controlled by the waiting Foo")
	}
}

func TestNameConflictOnCreate(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	_, creates := startWithHeldCreates(t, namespace)
	createFoo(t, namespace, "slow", "taken", 1)
	create := <-creates
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	before := getDeployment(t, namespace, "taken")
	close(create)
	waitForStalled(t, namespace, "slow", "ErrResourceExists")
	checkUnchanged(t, before)
	if countPrefix(requestsIn(t, namespace), "get deployments") == 0 {
		t.Error("the conflict was not resolved by a live read")
	}
}
