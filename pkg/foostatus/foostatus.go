// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from the rollout of what serves it, or from what keeps it from its
// desired state.
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

// kind is that of the object that serves a Foo. Reasons and messages name it.
const kind = "Deployment"

// Reasons of a rollout, and of a failed request. See control.StalledError for the others.
const (
	Available   = kind + "Available"
	Progressing = kind + "Progressing"
	Paused      = kind + "Paused"
	Stalled     = kind + "Stalled"
	Failed      = kind + "Failed" // A request has failed and is retried.
)

// Rollout is what a status needs to know of the object that serves a Foo.
type Rollout struct {
	Name, Selector string
	// The number of desired replicas, of all, of those with the newest Pod template, and of the available ones.
	Desired, Replicas, Updated, Available int32
	IsObserved                            bool // Its controller has seen its newest generation.
	IsDeleting, IsPaused                  bool
	IsStalled                             bool   // Pods cannot be created, or do not become available in time.
	Message                               string // Why it is stalled.
}

// RolloutOf returns the rollout of a Deployment, or nil for nil.
func RolloutOf(deployment *appsv1.Deployment) *Rollout {
	if deployment == nil {
		return nil
	}
	status := deployment.Status
	rollout := &Rollout{
		Name: deployment.Name, Selector: metav1.FormatLabelSelector(deployment.Spec.Selector),
		Desired:  ptr.Deref(deployment.Spec.Replicas, 1), // The API server's default.
		Replicas: status.Replicas, Updated: status.UpdatedReplicas, Available: status.AvailableReplicas,
		IsObserved: status.ObservedGeneration >= deployment.Generation,
		IsDeleting: deployment.DeletionTimestamp != nil, IsPaused: deployment.Spec.Paused,
	}
	for _, c := range status.Conditions {
		// See https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment.
		cannotCreatePods := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		doesNotProgress := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		if cannotCreatePods || doesNotProgress {
			rollout.IsStalled, rollout.Message = true, c.Message
			break
		}
	}
	return rollout
}

// New returns the status of a Foo with a rollout: that of the object of the desired name, of a superseded one that
// serves, or nil. A reason, if it is not empty, and its message say what keeps the object from its desired state.
func New(foo *samplev1alpha1.Foo, rollout *Rollout, reason, message string) samplev1alpha1.FooStatus {
	status := samplev1alpha1.FooStatus{
		ObservedGeneration: foo.Generation, Conditions: slices.Clone(foo.Status.Conditions),
	}
	if rollout != nil {
		status.AvailableReplicas, status.Replicas = rollout.Available, rollout.Replicas
		status.Selector = rollout.Selector
	}

	ready := metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation,
		LastTransitionTime: metav1.Now().Rfc3339Copy(), // As the API server stores it.
	}
	switch {
	case reason != "":
		ready.Reason, ready.Message = reason, message
	case rollout == nil || rollout.Name != foo.Spec.DeploymentName:
		ready.Reason = Progressing
		ready.Message = fmt.Sprintf("%s %q does not exist", kind, foo.Spec.DeploymentName)
	default:
		ready.Reason, ready.Message = rollout.describe()
	}
	if ready.Reason == Available {
		ready.Status = metav1.ConditionTrue
	}
	ready.Message = Shorten(ready.Message, 32768) // The API's limit.
	meta.SetStatusCondition(&status.Conditions, ready)
	if slices.Contains([]string{Available, Progressing, Failed}, ready.Reason) {
		meta.RemoveStatusCondition(&status.Conditions, samplev1alpha1.ConditionStalled)
		return status
	}
	ready.Type, ready.Status = samplev1alpha1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// Shorten cuts a message, which may be as long as a webhook likes, to a number of bytes.
func Shorten(message string, bytes int) string {
	return strings.ToValidUTF8(utilstrings.ShortenString(message, bytes), "")
}

// describe returns the reason and the message of the Ready condition of a Foo with this rollout. The message says
// what is missing, as kubectl rollout status does.
func (r *Rollout) describe() (reason, message string) {
	if r.IsDeleting {
		return Progressing, fmt.Sprintf("%s %q is being deleted", kind, r.Name)
	}
	message = fmt.Sprintf("%d of %d replicas available", r.Available, r.Desired)
	switch {
	case r.IsAvailable():
		return Available, message
	case !r.IsObserved:
		message += "; the latest change is not observed yet"
	case r.Updated < r.Desired:
		message += fmt.Sprintf("; %d of %d updated", r.Updated, r.Desired)
	case r.Replicas > r.Desired:
		message += fmt.Sprintf("; %d more to be terminated", r.Replicas-r.Desired)
	}
	switch {
	case r.IsStalled:
		return Stalled, message + ": " + r.Message
	// What is paused is scaled all the same, but only with the Pod template that it has rolled out.
	case r.IsObserved && r.IsPaused && r.Updated < max(1, r.Replicas):
		return Paused, message + "; the rollout is paused until kubectl rollout resume"
	}
	return Progressing, message
}

// IsAvailable reports whether all desired replicas, and no others, run the newest Pod template and are
// available. Without desired replicas it is true once the last one is gone.
func (r *Rollout) IsAvailable() bool {
	return !r.IsDeleting && r.IsObserved && r.Available >= r.Desired && r.Updated == r.Desired && r.Replicas == r.Desired
}

// CanTakeOver reports whether what serves a Foo can replace another object: it is available. Without replicas it can
// if the Foo desires none, or leaves their number to others.
func (r *Rollout) CanTakeOver(foo *samplev1alpha1.Foo) bool {
	if r.Desired == 0 {
		return ptr.Deref(foo.Spec.Replicas, 0) == 0 && !r.IsDeleting
	}
	return r.IsAvailable()
}
