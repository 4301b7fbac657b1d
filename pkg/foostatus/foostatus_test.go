// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

var transitionTime = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))

const selector = "app=nginx,controller=example-foo"

// newDeployment returns a Deployment of generation 3 with two desired replicas and the given status.
func newDeployment(status appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Generation: 3},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx", "controller": "example-foo"}},
		},
		Status: status,
	}
}

// newStatus returns the status of a Deployment of which updated replicas run the newest template and available ones are available.
func newStatus(observedGeneration int64, replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		ObservedGeneration: observedGeneration, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available, Conditions: conditions,
	}
}

// newFoo returns a Foo of generation 3 whose status, of generation 2, says that it was Ready.
func newFoo() *samplev1alpha1.Foo {
	return &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: "example"},
		Status: samplev1alpha1.FooStatus{
			ObservedGeneration: 2, AvailableReplicas: 9, Replicas: 9, Selector: "app=other",
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: transitionTime, Reason: Available, ObservedGeneration: 2},
				{Type: "Other", Status: metav1.ConditionTrue, LastTransitionTime: transitionTime, Reason: "Other"},
			},
		},
	}
}

func TestNew(t *testing.T) {
	deadlineExceeded := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
	}
	superseded := newDeployment(newStatus(3, 2, 2, 2))
	superseded.Name = "superseded"
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		failure    string

		ready         metav1.ConditionStatus
		reason        string
		isStalled     bool
		transitioned  bool
		wantReplicas  int32
		wantAvailable int32
		wantSelector  string
	}{
		"available": {
			deployment: newDeployment(newStatus(3, 2, 2, 2)),
			ready:      metav1.ConditionTrue, reason: "DeploymentAvailable", wantReplicas: 2, wantAvailable: 2, wantSelector: selector,
		},
		"progressing": {
			deployment: newDeployment(newStatus(3, 2, 2, 0)),
			ready:      metav1.ConditionFalse, reason: "DeploymentProgressing", transitioned: true, wantReplicas: 2, wantSelector: selector,
		},
		"rollout stalled": {
			deployment: newDeployment(newStatus(3, 2, 2, 1, deadlineExceeded)),
			ready:      metav1.ConditionFalse, reason: "DeploymentStalled", isStalled: true, transitioned: true,
			wantReplicas: 2, wantAvailable: 1, wantSelector: selector,
		},
		"failed": {
			deployment: newDeployment(newStatus(3, 2, 2, 2)), failure: "DeploymentFailed",
			ready: metav1.ConditionFalse, reason: "DeploymentFailed", transitioned: true,
			wantReplicas: 2, wantAvailable: 2, wantSelector: selector,
		},
		"no Deployment": {
			ready: metav1.ConditionFalse, reason: "DeploymentProgressing", transitioned: true,
		},
		"superseded Deployment": {
			deployment: superseded,
			ready:      metav1.ConditionFalse, reason: "DeploymentProgressing", transitioned: true,
			wantReplicas: 2, wantAvailable: 2, wantSelector: selector,
		},
		"stalled without a Deployment": {
			failure: "ErrResourceExists",
			ready:   metav1.ConditionFalse, reason: "ErrResourceExists", isStalled: true, transitioned: true,
		},
		"stalled with a Deployment": {
			deployment: newDeployment(newStatus(3, 2, 2, 2)), failure: "ErrResourceExists",
			ready: metav1.ConditionFalse, reason: "ErrResourceExists", isStalled: true, transitioned: true,
			wantReplicas: 2, wantAvailable: 2, wantSelector: selector,
		},
	} {
		t.Run(name, func(t *testing.T) {
			foo := newFoo()
			status := New(foo, RolloutOf(test.deployment), test.failure, "why")
			if !reflect.DeepEqual(foo, newFoo()) {
				t.Error("New() changed the cached Foo")
			}
			if status.ObservedGeneration != 3 || status.Replicas != test.wantReplicas || status.AvailableReplicas != test.wantAvailable ||
				status.Selector != test.wantSelector {
				t.Errorf("status = %+v", status)
			}
			ready := meta.FindStatusCondition(status.Conditions, "Ready")
			if ready.Status != test.ready || ready.Reason != test.reason || ready.ObservedGeneration != 3 || ready.Message == "" {
				t.Errorf("Ready = %+v, want %s %s", ready, test.ready, test.reason)
			}
			if got := !ready.LastTransitionTime.Equal(&transitionTime); got != test.transitioned {
				t.Errorf("lastTransitionTime changed: %v, want %v", got, test.transitioned)
			}
			stalled := meta.FindStatusCondition(status.Conditions, "Stalled")
			if (stalled != nil) != test.isStalled {
				t.Errorf("Stalled = %+v, want it: %v", stalled, test.isStalled)
			}
			if stalled != nil && (stalled.Status != metav1.ConditionTrue || stalled.Reason != ready.Reason || stalled.Message != ready.Message ||
				stalled.ObservedGeneration != 3) {
				t.Errorf("Stalled = %+v, want it to say what Ready says: %+v", stalled, ready)
			}
			if meta.FindStatusCondition(status.Conditions, "Other") == nil {
				t.Error("a condition of another controller is lost")
			}
			foo.Status = status
			if recovered := New(foo, RolloutOf(newDeployment(newStatus(3, 2, 2, 2))), "", ""); meta.FindStatusCondition(recovered.Conditions, "Stalled") != nil {
				t.Error("Stalled remains once the Deployment is available")
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	replicaFailure := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota",
	}
	noReplicaFailure := replicaFailure
	noReplicaFailure.Status = corev1.ConditionFalse
	deadlineExceeded := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "has timed out",
	}
	progressing := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated", Message: "is progressing",
	}
	for name, test := range map[string]struct {
		replicas *int32
		deleted  *metav1.Time
		status   appsv1.DeploymentStatus
		want     string
	}{
		"available":             {new(int32(2)), nil, newStatus(3, 2, 2, 2), "DeploymentAvailable: 2 of 2 replicas available"},
		"no replicas":           {new(int32(0)), nil, newStatus(3, 0, 0, 0), "DeploymentAvailable: 0 of 0 replicas available"},
		"last replica runs":     {new(int32(0)), nil, newStatus(3, 1, 1, 0), "DeploymentProgressing: 0 of 0 replicas available; 1 more to be terminated"},
		"default replicas":      {nil, nil, newStatus(3, 1, 1, 0), "DeploymentProgressing: 0 of 1 replicas available"},
		"not observed":          {new(int32(2)), nil, newStatus(2, 2, 2, 2), "DeploymentProgressing: 2 of 2 replicas available; the latest change is not observed yet"},
		"some available":        {new(int32(2)), nil, newStatus(3, 2, 2, 1, progressing), "DeploymentProgressing: 1 of 2 replicas available"},
		"old template":          {new(int32(2)), nil, newStatus(3, 2, 1, 2), "DeploymentProgressing: 2 of 2 replicas available; 1 of 2 updated"},
		"surge":                 {new(int32(2)), nil, newStatus(3, 3, 2, 2), "DeploymentProgressing: 2 of 2 replicas available; 1 more to be terminated"},
		"deadline exceeded":     {new(int32(2)), nil, newStatus(3, 2, 2, 1, deadlineExceeded), "DeploymentStalled: 1 of 2 replicas available: has timed out"},
		"replica failure":       {new(int32(2)), nil, newStatus(3, 0, 0, 0, progressing, replicaFailure), "DeploymentStalled: 0 of 2 replicas available; 0 of 2 updated: exceeded quota"},
		"failure, not observed": {new(int32(2)), nil, newStatus(0, 0, 0, 0, replicaFailure), "DeploymentStalled: 0 of 2 replicas available; the latest change is not observed yet: exceeded quota"},
		"failure is over":       {new(int32(2)), nil, newStatus(3, 2, 2, 0, noReplicaFailure), "DeploymentProgressing: 0 of 2 replicas available"},
		"available after all":   {new(int32(2)), nil, newStatus(3, 2, 2, 2, deadlineExceeded), "DeploymentAvailable: 2 of 2 replicas available"},
		"being deleted":         {new(int32(2)), &transitionTime, newStatus(3, 2, 2, 2), `DeploymentProgressing: Deployment "example" is being deleted`},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := newDeployment(test.status)
			deployment.Spec.Replicas, deployment.DeletionTimestamp = test.replicas, test.deleted
			reason, message := RolloutOf(deployment).describe()
			if got := reason + ": " + message; got != test.want {
				t.Errorf("describe() = %q, want %q", got, test.want)
			}
			if got, want := RolloutOf(deployment).IsAvailable(), reason == Available; got != want {
				t.Errorf("IsAvailable() = %v, want %v", got, want)
			}
		})
	}
}

// A rollout that is paused goes on only once it is resumed. A paused Deployment is scaled all the same.
func TestPausedRollout(t *testing.T) {
	const resume = "the rollout is paused until kubectl rollout resume"
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		want   string
	}{
		"new template":      {newStatus(3, 2, 0, 2), "DeploymentPaused: 2 of 2 replicas available; 0 of 2 updated; " + resume},
		"half rolled out":   {newStatus(3, 2, 1, 2), "DeploymentPaused: 2 of 2 replicas available; 1 of 2 updated; " + resume},
		"surge":             {newStatus(3, 3, 2, 2), "DeploymentPaused: 2 of 2 replicas available; 1 more to be terminated; " + resume},
		"created as paused": {newStatus(3, 0, 0, 0), "DeploymentPaused: 0 of 2 replicas available; 0 of 2 updated; " + resume},
		"not observed":      {newStatus(2, 2, 0, 2), "DeploymentProgressing: 2 of 2 replicas available; the latest change is not observed yet"},
		"scaled up":         {newStatus(3, 1, 1, 1), "DeploymentProgressing: 1 of 2 replicas available; 1 of 2 updated"},
		"rolled out":        {newStatus(3, 2, 2, 2), "DeploymentAvailable: 2 of 2 replicas available"},
	} {
		deployment := newDeployment(test.status)
		deployment.Spec.Paused = true
		reason, message := RolloutOf(deployment).describe()
		if got := reason + ": " + message; got != test.want {
			t.Errorf("%s: describe() = %q, want %q", name, got, test.want)
		}
		status := New(newFoo(), RolloutOf(deployment), "", "")
		if got, want := meta.FindStatusCondition(status.Conditions, "Stalled") != nil, reason == Paused; got != want {
			t.Errorf("%s: Stalled: %v, want %v", name, got, want)
		}
	}
}

func TestCanTakeOver(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int32
		status   appsv1.DeploymentStatus
		deleted  *metav1.Time
		want     bool
	}{
		"available":                    {2, newStatus(3, 2, 2, 2), nil, true},
		"progressing":                  {3, newStatus(3, 2, 2, 2), nil, false},
		"new":                          {2, newStatus(0, 0, 0, 0), nil, false},
		"no replicas desired":          {0, newStatus(0, 0, 0, 0), nil, true},
		"being deleted":                {2, newStatus(3, 2, 2, 2), &transitionTime, false},
		"no replicas, being deleted":   {0, newStatus(3, 0, 0, 0), &transitionTime, false},
		"replicas of an earlier scale": {0, newStatus(2, 2, 2, 2), nil, true},
	} {
		deployment := newDeployment(test.status)
		deployment.Spec.Replicas, deployment.DeletionTimestamp = &test.replicas, test.deleted
		foo := newFoo()
		if got := RolloutOf(deployment).CanTakeOver(foo); got != test.want {
			t.Errorf("%s: CanTakeOver() = %v, want %v", name, got, test.want)
		}
		foo.Spec.Replicas = new(int32(2)) // Who has set another number, such as 0, is not the Foo.
		if got, want := RolloutOf(deployment).CanTakeOver(foo), test.want && test.replicas > 0; got != want {
			t.Errorf("%s: CanTakeOver() = %v for a Foo with two replicas, want %v", name, got, want)
		}
	}
}

func TestLongMessageIsTruncated(t *testing.T) {
	long := strings.Repeat("a", 40000)
	failing := &appsv1.Deployment{}
	failing.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: long},
	}
	failing.Name = newFoo().Spec.DeploymentName
	for name, status := range map[string]samplev1alpha1.FooStatus{
		"rejection":  New(newFoo(), nil, "DeploymentRejected", long),
		"multi-byte": New(newFoo(), nil, "DeploymentRejected", strings.Repeat("ü", 20000)),
		"rollout":    New(newFoo(), RolloutOf(failing), "", ""),
	} {
		for _, condition := range []string{samplev1alpha1.ConditionReady, samplev1alpha1.ConditionStalled} {
			message := meta.FindStatusCondition(status.Conditions, condition).Message
			if len(message) > 32768 || len(message) < 32760 || !utf8.ValidString(message) {
				t.Errorf("%s: %s has a message of %d bytes, want at most 32768 and valid UTF-8", name, condition, len(message))
			}
		}
	}
}
