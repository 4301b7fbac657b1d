// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from its Deployment, or from what keeps it from its desired state.
package foostatus

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	utilstrings "k8s.io/utils/strings"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Reasons of a rollout, and of a failed request. See control.StalledError for the others.
const (
	DeploymentAvailable   = "DeploymentAvailable"
	DeploymentProgressing = "DeploymentProgressing"
	DeploymentPaused      = "DeploymentPaused"
	DeploymentStalled     = "DeploymentStalled"
	DeploymentFailed      = "DeploymentFailed" // A request has failed and is retried.
)

// New returns the status of a Foo with a Deployment: that of its deploymentName, a superseded one that serves, or
// nil. A reason, if it is not empty, and its message say what keeps the Deployment from its desired state.
func New(
	foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, reason, message string,
) samplev1alpha1.FooStatus {
	status := samplev1alpha1.FooStatus{
		ObservedGeneration: foo.Generation, Conditions: slices.Clone(foo.Status.Conditions),
	}
	if deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
		status.Replicas = deployment.Status.Replicas
		status.Selector = metav1.FormatLabelSelector(deployment.Spec.Selector)
	}

	ready := metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation,
		LastTransitionTime: metav1.Now().Rfc3339Copy(), // As the API server stores it.
	}
	switch {
	case reason != "":
		ready.Reason, ready.Message = reason, message
	case deployment == nil || deployment.Name != foo.Spec.DeploymentName:
		ready.Reason = DeploymentProgressing
		ready.Message = fmt.Sprintf("Deployment %q does not exist", foo.Spec.DeploymentName)
	default:
		ready.Reason, ready.Message = rolloutStatus(deployment)
	}
	if ready.Reason == DeploymentAvailable {
		ready.Status = metav1.ConditionTrue
	}
	ready.Message = strings.ToValidUTF8(utilstrings.ShortenString(ready.Message, 32768), "") // The API's limit.
	meta.SetStatusCondition(&status.Conditions, ready)
	if slices.Contains([]string{DeploymentAvailable, DeploymentProgressing, DeploymentFailed}, ready.Reason) {
		meta.RemoveStatusCondition(&status.Conditions, samplev1alpha1.ConditionStalled)
		return status
	}
	ready.Type, ready.Status = samplev1alpha1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// rolloutStatus returns the reason and the message of the Ready condition of a Foo with this Deployment. The
// message says what is missing, as kubectl rollout status does.
func rolloutStatus(deployment *appsv1.Deployment) (reason, message string) {
	if deployment.DeletionTimestamp != nil {
		return DeploymentProgressing, fmt.Sprintf("Deployment %q is being deleted", deployment.Name)
	}
	status, desired := deployment.Status, DesiredReplicas(deployment)
	isObserved := status.ObservedGeneration >= deployment.Generation
	message = fmt.Sprintf("%d of %d replicas available", status.AvailableReplicas, desired)
	switch {
	case IsAvailable(deployment):
		return DeploymentAvailable, message
	case !isObserved:
		message += "; the latest change is not observed yet"
	case status.UpdatedReplicas < desired:
		message += fmt.Sprintf("; %d of %d updated", status.UpdatedReplicas, desired)
	case status.Replicas > desired:
		message += fmt.Sprintf("; %d more to be terminated", status.Replicas-desired)
	}
	for _, c := range status.Conditions {
		// See https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment.
		cannotCreatePods := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		doesNotProgress := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		if cannotCreatePods || doesNotProgress {
			return DeploymentStalled, message + ": " + c.Message
		}
	}
	// A paused Deployment is scaled all the same, but only with the Pod template that it has rolled out.
	if isObserved && deployment.Spec.Paused && status.UpdatedReplicas < max(1, status.Replicas) {
		return DeploymentPaused, message + "; the rollout is paused until kubectl rollout resume"
	}
	return DeploymentProgressing, message
}

// IsAvailable reports whether all desired replicas, and no others, run the newest Pod template and are
// available. Without desired replicas it is true once the last one is gone.
func IsAvailable(deployment *appsv1.Deployment) bool {
	status, desired := deployment.Status, DesiredReplicas(deployment)
	return deployment.DeletionTimestamp == nil && status.ObservedGeneration >= deployment.Generation &&
		status.AvailableReplicas >= desired && status.UpdatedReplicas == desired && status.Replicas == desired
}

// CanTakeOver reports whether a Foo's Deployment can replace another: it is available. Without replicas it can if
// the Foo desires none, or leaves their number to others.
func CanTakeOver(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) bool {
	if DesiredReplicas(deployment) == 0 {
		return ptr.Deref(foo.Spec.Replicas, 0) == 0 && deployment.DeletionTimestamp == nil
	}
	return IsAvailable(deployment)
}

// DesiredReplicas returns spec.replicas, or the API server's default.
func DesiredReplicas(deployment *appsv1.Deployment) int32 {
	return ptr.Deref(deployment.Spec.Replicas, 1)
}
