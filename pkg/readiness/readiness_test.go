// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOf(t *testing.T) {
	failed := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota",
	}
	timedOut := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "has timed out",
	}
	moving := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated", Message: "is progressing",
	}
	for name, test := range map[string]struct {
		replicas    *int32
		status      appsv1.DeploymentStatus
		want        State
		wantMessage string
	}{
		"all replicas are available": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			want:     Available, wantMessage: "2 of 2 replicas available",
		},
		"no replicas are wanted, and none are there": {
			replicas: new(int32(0)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 3},
			want:     Available, wantMessage: "0 of 0",
		},
		"replicas that are not set mean one": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1},
			want:   Progressing, wantMessage: "0 of 1",
		},
		"the counts are of an older generation": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			want:     Progressing, wantMessage: "2 of 2",
		},
		"an old stall is of an older generation": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: []appsv1.DeploymentCondition{timedOut}},
			want:     Progressing, wantMessage: "0 of 2",
		},
		"some replicas are not available yet": {
			replicas: new(int32(2)),
			status: appsv1.DeploymentStatus{
				ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1,
				Conditions: []appsv1.DeploymentCondition{moving},
			},
			want: Progressing, wantMessage: "1 of 2",
		},
		"replicas of the old template still serve": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2},
			want:     Progressing, wantMessage: "2 of 2",
		},
		"replicas beyond the wanted ones are still there": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 2},
			want:     Progressing, wantMessage: "2 of 2",
		},
		"Pods cannot be created": {
			replicas: new(int32(2)),
			status:   appsv1.DeploymentStatus{ObservedGeneration: 3, Conditions: []appsv1.DeploymentCondition{moving, failed}},
			want:     Stalled, wantMessage: "0 of 2 replicas available: exceeded quota",
		},
		"the progress deadline has passed": {
			replicas: new(int32(2)),
			status: appsv1.DeploymentStatus{
				ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1,
				Conditions: []appsv1.DeploymentCondition{timedOut},
			},
			want: Stalled, wantMessage: "1 of 2 replicas available: has timed out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			state, message := Of(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "example", Generation: 3},
				Spec:       appsv1.DeploymentSpec{Replicas: test.replicas},
				Status:     test.status,
			})
			if state != test.want || !strings.Contains(message, test.wantMessage) {
				t.Errorf("Of() = %s, %q, want %s, %q", state, message, test.want, test.wantMessage)
			}
		})
	}
}

func TestCanTakeOver(t *testing.T) {
	available := appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	now := metav1.Now()
	for name, test := range map[string]struct {
		replicas int32
		status   appsv1.DeploymentStatus
		deleted  *metav1.Time
		want     bool
	}{
		"one whose replicas are all available":                {2, available, nil, true},
		"one that rolls out":                                  {3, available, nil, false},
		"one that was not looked at yet":                      {2, appsv1.DeploymentStatus{}, nil, false},
		"one that wants no replicas":                          {0, appsv1.DeploymentStatus{}, nil, true},
		"one that is being deleted while it still serves":     {2, available, &now, false},
		"one that wants no replicas and is being deleted too": {0, appsv1.DeploymentStatus{}, &now, false},
	} {
		got := CanTakeOver(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 3, DeletionTimestamp: test.deleted},
			Spec:       appsv1.DeploymentSpec{Replicas: &test.replicas},
			Status:     test.status,
		})
		if got != test.want {
			t.Errorf("%s: CanTakeOver() = %v, want %v", name, got, test.want)
		}
	}
}
