// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
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
	"k8s.io/sample-controller/pkg/ownership"
)

// immediately is how long something may take that a watch event brings about.
const immediately = time.Second

func TestAForeignDeploymentIsLeftAloneUntilItGoes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other:latest")
	before := getDeployment(t, namespace, "taken")
	controller := startController(t, namespace)
	foo := createFoo(t, namespace, "waiting", "taken", 1)

	message := `Resource "taken" already exists and is not managed by Foo`
	wantEvent(t, foo, corev1.EventTypeWarning, "ErrResourceExists", message)
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
	if after := getDeployment(t, namespace, "taken"); after.Generation != before.Generation || len(after.OwnerReferences) > 0 {
		t.Errorf("the foreign Deployment was changed: %v", after)
	}

	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	wantReplicas(t, namespace, "waiting", 1)
	if deployment := getDeployment(t, namespace, "taken"); !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want the Foo that was waiting", deployment.OwnerReferences)
	}
	if meta.FindStatusCondition(getFoo(t, namespace, "waiting").Status.Conditions, samplev1alpha1.ConditionStalled) != nil {
		t.Error("the condition Stalled is still there")
	}
}

// Not parallel: it measures times.
func TestAWaitingFooGetsAFreedNameAtOnce(t *testing.T) {
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	kubectl(t, "create", "deployment", "-n", namespace, "wanted", "--image=other")
	waiting := map[types.UID]string{}
	for i := range 2 {
		name := fmt.Sprintf("waiting-%d", i)
		waiting[createFoo(t, namespace, name, "wanted", 1).UID] = name
		// After ten retries the next one is seconds away: it is not the backoff that serves them in time.
		eventually(t, convergence, func() error {
			count := 0
			for line := range strings.Lines(controller.log.String()) {
				if strings.Contains(line, `result="problem"`) && strings.Contains(line, fmt.Sprintf(`foo="%s/%s"`, namespace, name)) {
					count++
				}
			}
			if count < 10 {
				return fmt.Errorf("%d retries", count)
			}
			return nil
		})
	}

	kubectl(t, "delete", "-n", namespace, "deployment/wanted")
	var winner string
	eventually(t, immediately, func() error {
		deployment, err := findDeployment(t, namespace, "wanted")
		if err != nil {
			return err
		}
		owner := metav1.GetControllerOf(deployment)
		if owner == nil {
			return errors.New("nobody has the name yet")
		}
		winner = waiting[owner.UID]
		delete(waiting, owner.UID)
		return nil
	})
	wantReplicas(t, namespace, winner, 1)

	// It changes hands: an edit gives it to the one that still waits.
	for _, loser := range waiting {
		owner, err := json.Marshal(metav1.NewControllerRef(getFoo(t, namespace, loser), ownership.FooKind))
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, "patch", "-n", namespace, "deployment/wanted", "--type=merge", "-p",
			fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owner))
		eventually(t, immediately, func() error {
			ready := meta.FindStatusCondition(getFoo(t, namespace, loser).Status.Conditions, samplev1alpha1.ConditionReady)
			if ready.Reason == "ErrResourceExists" {
				return fmt.Errorf("%s still waits: %s", loser, ready.Message)
			}
			return nil
		})
		wantReason(t, namespace, winner, "ErrResourceExists")
	}
}

func TestAWaitingFooTakesOverFromOneThatIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "first", "wanted", 1)
	wantReplicas(t, namespace, "first", 1)
	second := createFoo(t, namespace, "second", "wanted", 2)
	wantReason(t, namespace, "second", "ErrResourceExists")
	kubectl(t, "delete", "-n", namespace, "foo/first")
	wantReplicasWithin(t, 2*convergence, namespace, "second", 2)
	if !metav1.IsControlledBy(getDeployment(t, namespace, "wanted"), second) {
		t.Error("the Deployment does not belong to the Foo that waited")
	}
}

func TestADeploymentThatAppearsJustBeforeItsCreationIsNotTouched(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	gate := startGate(t)
	gate.startController(t, namespace)
	createFoo(t, namespace, "slow", "taken", 1)
	creation := <-gate.arrived
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	before := getDeployment(t, namespace, "taken")
	close(creation)
	wantReason(t, namespace, "slow", "ErrResourceExists")
	if after := getDeployment(t, namespace, "taken"); after.Generation != before.Generation || len(after.OwnerReferences) > 0 {
		t.Errorf("the Deployment of someone else was changed: %+v", after)
	}
	if countPrefix(requestsOf(t, namespace), "get deployments") == 0 {
		t.Error("the conflict was not resolved by a live read")
	}
}
