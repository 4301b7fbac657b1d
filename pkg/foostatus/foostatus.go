// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from the rollout of its Deployment, or from the error that prevents it.
package foostatus

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Reasons of conditions, beside those of a StalledError.
const (
	DeploymentAvailable   = "DeploymentAvailable"
	DeploymentProgressing = "DeploymentProgressing"
	DeploymentStalled     = "DeploymentStalled"
)

// DeploymentRejected is the reason of a StalledError whose message is the API server's.
const DeploymentRejected = "DeploymentRejected"

// StalledError is an error that a retry does not fix: a user has to act. It is reported in the Stalled condition.
type StalledError struct {
	// Reason is one word in CamelCase.
	Reason string
	// Message is for people.
	Message string
	// RetryAfter is the delay of the next retry. If it is 0, the workqueue's rate limiter determines it.
	RetryAfter time.Duration
}

// Error returns the message.
func (e *StalledError) Error() string { return e.Message }

// AsStalled returns err as a StalledError if the API server rejects an object for what it is, and err itself otherwise. It does so
// as Invalid, as Forbidden (quota, policy, missing permission), or, through an admission webhook, as BadRequest or
// RequestEntityTooLarge. Objects in a namespace that is being deleted are not rejected for what they are.
func AsStalled(err error) error {
	rejected := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
	if rejected && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return &StalledError{Reason: DeploymentRejected, Message: truncated(err.Error())}
	}
	return err
}

// New returns the status of a Foo with the given Deployment, if it has one, and the given error, if it is stalled. One of the two
// must be given. The lastTransitionTime of a condition changes only if its status does.
func New(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, stalled *StalledError) samplev1alpha1.FooStatus {
	status := samplev1alpha1.FooStatus{ObservedGeneration: foo.Generation, Conditions: slices.Clone(foo.Status.Conditions)}
	if deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
		status.Replicas = deployment.Status.Replicas
		status.Selector = metav1.FormatLabelSelector(deployment.Spec.Selector)
	}

	ready := metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation,
		LastTransitionTime: metav1.Now().Rfc3339Copy(), // As the API server stores it.
	}
	if stalled != nil {
		ready.Reason, ready.Message = stalled.Reason, stalled.Message
	} else {
		ready.Reason, ready.Message = RolloutStatus(deployment)
	}
	if ready.Reason == DeploymentAvailable {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if stalled == nil && ready.Reason != DeploymentStalled {
		meta.RemoveStatusCondition(&status.Conditions, samplev1alpha1.ConditionStalled)
		return status
	}
	ready.Type, ready.Status = samplev1alpha1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// maxMessageLength is the maximum length of the message of a metav1.Condition.
const maxMessageLength = 32768

// truncated cuts a message that is too long, such as one that contains the reasons of many admission policies.
func truncated(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(message[:maxMessageLength-len(ellipsis)], "") + ellipsis
}
