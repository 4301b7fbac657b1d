// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus makes the status of a Foo from its Deployment, or from what keeps it from having one.
package foostatus

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/readiness"
)

// Problem is an error that a retry alone will not mend: someone has to be told, and to help.
type Problem struct {
	// Reason is a word in CamelCase, as conditions and events have it.
	Reason string
	// Message is for people.
	Message string
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// DeploymentRejected is the reason of a Problem whose message is the API server's.
const DeploymentRejected = "DeploymentRejected"

// Refusal returns a Problem if err says that the API server refuses an object as such, and err otherwise. Invalid says so for
// what cannot be, Forbidden for a quota, a policy or a missing permission, and admission webhooks with any of the four.
func Refusal(err error) error {
	refused := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
	if refused && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return &Problem{Reason: DeploymentRejected, Message: err.Error()}
	}
	return err
}

// New returns the status of a Foo that has the given Deployment, or none, and that has the given problem, or none. One of
// the two must be given. The time of a condition's transition moves only if its value does.
func New(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, problem *Problem) samplev1alpha1.FooStatus {
	status := samplev1alpha1.FooStatus{ObservedGeneration: foo.Generation}
	if deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
		status.Replicas = deployment.Status.Replicas
		status.Selector = selectorOf(deployment, foo.Status.Selector)
	}

	ready := metav1.Condition{Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation}
	stalled := true
	if problem != nil {
		ready.Reason, ready.Message = problem.Reason, problem.Message
	} else {
		state, message := readiness.Of(deployment)
		ready.Reason, ready.Message = string(state), message
		stalled = state == readiness.Stalled
		if state == readiness.Available {
			ready.Status = metav1.ConditionTrue
		}
	}
	status.Conditions = withCondition(foo.Status.Conditions, ready)
	if stalled {
		ready.Type, ready.Status = samplev1alpha1.ConditionStalled, metav1.ConditionTrue
		status.Conditions = withCondition(status.Conditions, ready)
	} else if meta.FindStatusCondition(status.Conditions, samplev1alpha1.ConditionStalled) != nil { // Removing always copies.
		meta.RemoveStatusCondition(&status.Conditions, samplev1alpha1.ConditionStalled)
	}
	return status
}

// withCondition returns conditions, which belong to the cache, if they have this one, and otherwise a copy with it.
func withCondition(conditions []metav1.Condition, condition metav1.Condition) []metav1.Condition {
	if had := meta.FindStatusCondition(conditions, condition.Type); had != nil {
		same := condition
		same.LastTransitionTime = had.LastTransitionTime
		if *had == same {
			return conditions
		}
	}
	conditions = slices.Clone(conditions)
	meta.SetStatusCondition(&conditions, condition)
	return conditions
}

// Equal reports whether two statuses say the same.
func Equal(a, b samplev1alpha1.FooStatus) bool {
	return a.AvailableReplicas == b.AvailableReplicas && a.Replicas == b.Replicas && a.Selector == b.Selector &&
		a.ObservedGeneration == b.ObservedGeneration && slices.Equal(a.Conditions, b.Conditions)
}

// selectorOf returns the selector of a Deployment in the form of a string, which is probably the one that is known already.
func selectorOf(deployment *appsv1.Deployment, known string) string {
	selector := deployment.Spec.Selector
	if selector == nil || len(selector.MatchExpressions) > 0 || len(selector.MatchLabels) == 0 {
		return metav1.FormatLabelSelector(selector)
	}
	// The same for less work, since each sync asks for it: without a new string if it is the known one.
	keys := slices.AppendSeq(make([]string, 0, 8), maps.Keys(selector.MatchLabels))
	slices.Sort(keys)
	text := make([]byte, 0, 128)
	for i, key := range keys {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, key...), '='), selector.MatchLabels[key]...)
	}
	if string(text) == known {
		return known
	}
	return string(text)
}

// HasProblem reports whether the status of a Foo tells of a Problem.
func HasProblem(foo *samplev1alpha1.Foo) bool {
	stalled := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionStalled)
	return stalled != nil && stalled.Reason != string(readiness.Stalled)
}
