// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

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

// IsAvailable reports whether all desired replicas, and no others, run the newest Pod template and are available. A Deployment
// without desired replicas is available as soon as the Deployment controller has removed the last one.
func IsAvailable(deployment *appsv1.Deployment) bool {
	status, desired := deployment.Status, desiredReplicas(deployment)
	return deployment.DeletionTimestamp == nil && status.ObservedGeneration >= deployment.Generation &&
		status.AvailableReplicas >= desired && status.UpdatedReplicas == desired && status.Replicas == desired
}

// CanTakeOver reports whether a Deployment can replace another one: it is available, or no replicas are desired.
func CanTakeOver(deployment *appsv1.Deployment) bool {
	return IsAvailable(deployment) || desiredReplicas(deployment) == 0 && deployment.DeletionTimestamp == nil
}

// desiredReplicas returns spec.replicas, or the API server's default.
func desiredReplicas(deployment *appsv1.Deployment) int32 {
	return ptr.Deref(deployment.Spec.Replicas, 1)
}
