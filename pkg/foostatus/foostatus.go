// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from the rollout of its Deployment, or from the error that
// prevents it.
package foostatus

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Reasons of conditions, beside those of a StalledError.
const (
	DeploymentAvailable   = "DeploymentAvailable"
	DeploymentProgressing = "DeploymentProgressing"
	DeploymentStalled     = "DeploymentStalled"
)

// Reasons of a StalledError.
const (
	// DeploymentRejected is the reason if the message is the API server's.
	DeploymentRejected = "DeploymentRejected"
	// ErrResourceExists is the reason if the message is MessageResourceExists.
	ErrResourceExists     = "ErrResourceExists"
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

// StalledError is what stalls a Foo: a retry does not fix it, a user has to act. It is reported in the
// Stalled condition.
type StalledError struct {
	// Reason is one word in CamelCase.
	Reason string
	// Message is for people.
	Message string
}

// Error returns the message.
func (e *StalledError) Error() string { return e.Message }

// NameConflict returns the error for an object of the desired name that the Foo does not control.
func NameConflict(name string) *StalledError {
	return &StalledError{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, name)}
}

// AsStalled returns what stalls a Foo after a request for its Deployment has failed with err: a StalledError
// that err is, or that the API server rejects the object itself. It does so as Invalid, as Forbidden (quota,
// policy, missing permission), or, through an admission webhook, as BadRequest or RequestEntityTooLarge.
// AsStalled returns nil if a retry may help. In a namespace that is being deleted every object is Forbidden,
// which is not about the object.
func AsStalled(err error) *StalledError {
	if stalled, ok := errors.AsType[*StalledError](err); ok {
		return stalled
	}
	rejected := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
	if !rejected || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return &StalledError{Reason: DeploymentRejected, Message: truncated(err.Error())}
}

// IsObserved reports whether the status of a Foo is about its latest generation.
func IsObserved(foo *samplev1alpha1.Foo) bool { return foo.Status.ObservedGeneration == foo.Generation }

// New returns the status of a Foo with the given Deployment, if it has one, and the given error, if it is
// stalled. One of the two must be given. The lastTransitionTime of a condition changes only if its status
// does.
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

// truncated cuts a message that is too long, such as one that contains the reasons of many admission
// policies.
func truncated(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(message[:maxMessageLength-len(ellipsis)], "") + ellipsis
}

// RolloutStatus returns the reason and the message of the Ready condition of a Foo with this Deployment.
func RolloutStatus(deployment *appsv1.Deployment) (reason, message string) {
	if deployment.DeletionTimestamp != nil {
		return DeploymentProgressing, fmt.Sprintf("Deployment %q is being deleted", deployment.Name)
	}
	message = fmt.Sprintf("%d of %d replicas available", deployment.Status.AvailableReplicas, desiredReplicas(deployment))
	if IsAvailable(deployment) {
		return DeploymentAvailable, message
	}
	for _, condition := range deployment.Status.Conditions {
		// See https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment.
		cannotCreatePods := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue
		doesNotProgress := condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse
		if cannotCreatePods || doesNotProgress {
			return DeploymentStalled, truncated(message + ": " + condition.Message)
		}
	}
	return DeploymentProgressing, message
}

// IsAvailable reports whether all desired replicas, and no others, run the newest Pod template and are
// available. A Deployment without desired replicas is available as soon as the Deployment controller has
// removed the last one.
func IsAvailable(deployment *appsv1.Deployment) bool {
	status, desired := deployment.Status, desiredReplicas(deployment)
	return deployment.DeletionTimestamp == nil && status.ObservedGeneration >= deployment.Generation &&
		status.AvailableReplicas >= desired && status.UpdatedReplicas == desired && status.Replicas == desired
}

// CanTakeOver reports whether a Deployment can replace another one: it is available, or no replicas are
// desired.
func CanTakeOver(deployment *appsv1.Deployment) bool {
	return IsAvailable(deployment) || desiredReplicas(deployment) == 0 && deployment.DeletionTimestamp == nil
}

// desiredReplicas returns spec.replicas, or the API server's default.
func desiredReplicas(deployment *appsv1.Deployment) int32 {
	return ptr.Deref(deployment.Spec.Replicas, 1)
}
