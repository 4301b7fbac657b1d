// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness tells from a Deployment how far its rollout has come.
package readiness

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// State is how far the rollout of a Deployment has come. Its values serve as reasons of conditions.
type State string

const (
	// Available means that all wanted replicas run the newest Pod template and are available, and no others are left.
	Available State = "DeploymentAvailable"
	// Progressing means that the rollout is under way.
	Progressing State = "DeploymentProgressing"
	// Stalled means that the rollout will not go on without someone's help.
	Stalled State = "DeploymentStalled"
)

// timedOutReason is the reason of the condition Progressing once spec.progressDeadlineSeconds have passed. See
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment.
const timedOutReason = "ProgressDeadlineExceeded"

// Of returns the state of a Deployment and a sentence for people about it.
func Of(deployment *appsv1.Deployment) (State, string) {
	if deployment.DeletionTimestamp != nil {
		return Progressing, fmt.Sprintf("Deployment %q is being deleted", deployment.Name)
	}
	message := strconv.Itoa(int(deployment.Status.AvailableReplicas)) + " of " + strconv.Itoa(int(Wanted(deployment))) +
		" replicas available" // Made in each sync, and so without fmt, which allocates more.
	if deployment.Status.ObservedGeneration < deployment.Generation {
		return Progressing, message // What the rest of the status says is about an older spec.
	}
	if isAvailable(deployment) {
		return Available, message
	}
	for _, condition := range deployment.Status.Conditions {
		failed := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue
		timedOut := condition.Type == appsv1.DeploymentProgressing && condition.Reason == timedOutReason
		if failed || timedOut {
			return Stalled, fmt.Sprintf("%s: %s", message, condition.Message)
		}
	}
	return Progressing, message
}

// isAvailable reports whether all wanted replicas, and no others, run the newest Pod template and are available.
func isAvailable(deployment *appsv1.Deployment) bool {
	status, wanted := &deployment.Status, Wanted(deployment)
	return deployment.DeletionTimestamp == nil && status.ObservedGeneration >= deployment.Generation &&
		status.AvailableReplicas >= wanted && status.UpdatedReplicas == wanted && status.Replicas == wanted
}

// CanTakeOver reports whether a Deployment is able to do what another one did: all wanted replicas are available, or none
// are wanted.
func CanTakeOver(deployment *appsv1.Deployment) bool {
	return isAvailable(deployment) || Wanted(deployment) == 0 && deployment.DeletionTimestamp == nil
}

// Wanted returns how many replicas a Deployment's spec asks for.
func Wanted(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1 // The API server's default.
	}
	return *deployment.Spec.Replicas
}
