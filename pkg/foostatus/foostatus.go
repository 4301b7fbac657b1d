// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from its Deployment, or from the error that prevents it.
package foostatus

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	utilstrings "k8s.io/utils/strings"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Reasons of conditions: those of a rollout, of a failed request, and from DeploymentRejected on of a StalledError.
const (
	DeploymentAvailable   = "DeploymentAvailable"
	DeploymentProgressing = "DeploymentProgressing"
	DeploymentPaused      = "DeploymentPaused"
	DeploymentStalled     = "DeploymentStalled"
	DeploymentFailed      = "DeploymentFailed"     // The message is that of the error.
	DeploymentRejected    = "DeploymentRejected"   // The message is the API server's.
	DeploymentOverridden  = "DeploymentOverridden" // The message names the fields that others change.
	ErrResourceExists     = "ErrResourceExists"    // The message is MessageResourceExists.
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

// StalledError is what stalls a Foo until a user acts. It is reported in the Stalled condition.
type StalledError struct {
	Reason     string        // One word in CamelCase.
	Message    string        // For people.
	RetryAfter time.Duration // When the situation may have changed without an event, or 0 if that is not known.
}

// Error returns the message.
func (e *StalledError) Error() string { return e.Message }

// NameConflict returns the error for an object of the desired name that the Foo does not control.
func NameConflict(name string) *StalledError {
	return &StalledError{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, name)}
}

// Rejected returns the error for a write that the API server rejected, with its message.
func Rejected(message string, retryAfter time.Duration) *StalledError {
	return &StalledError{DeploymentRejected, message, retryAfter}
}

// Overridden returns the error that names the differences, or nil if there are none. One that the status of the
// Foo reports already stays, with its text.
func Overridden(foo *samplev1alpha1.Foo, differences Differences, retryAfter time.Duration) *StalledError {
	if reported := Reported(foo, DeploymentOverridden); reported != nil {
		return &StalledError{DeploymentOverridden, reported.Message, retryAfter}
	}
	if !differences.Exist() {
		return nil
	}
	return &StalledError{DeploymentOverridden, differences.String(), retryAfter}
}

// Reason returns the reason of the Ready condition of a Foo whose sync has failed with err.
func Reason(err error) string {
	if stalled, isStalled := errors.AsType[*StalledError](err); isStalled {
		return stalled.Reason
	}
	return DeploymentFailed
}

// Reported returns the Ready condition of a Foo if it has the reason, and is about its latest generation, or nil.
func Reported(foo *samplev1alpha1.Foo, reason string) *metav1.Condition {
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	if ready == nil || ready.Reason != reason || ready.ObservedGeneration != foo.Generation {
		return nil
	}
	return ready
}

// New returns the status of a Foo with a Deployment: that of its deploymentName, a superseded one that serves, or
// nil. An error, which may be a StalledError, is what keeps the Deployment from its desired state.
func New(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, err error) samplev1alpha1.FooStatus {
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
	case err != nil:
		ready.Reason, ready.Message = Reason(err), err.Error()
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

// Differences are the fields of a Deployment that differ from its desired state. Found is nil if there is no
// Deployment. They are computed when they are printed, so that a log line that is disabled costs nothing.
type Differences struct{ Found, Desired *appsv1.Deployment }

// Exist reports whether anything differs. Values that are equal to the API server, such as the quantities
// 1000m and 1, or an empty list and none, do not.
func (d Differences) Exist() bool {
	// Most syncs find nothing, which reflect.DeepEqual sees in a fraction of the time.
	return !reflect.DeepEqual(d.Found, d.Desired) && !equality.Semantic.DeepEqual(d.Found, d.Desired)
}

// String returns each field with its desired value and the one that was found.
func (d Differences) String() string {
	if d.Found == nil {
		return fmt.Sprintf("Deployment %q: desired, found nothing", d.Desired.Name)
	}
	found, desired := map[string]string{}, map[string]string{}
	flatten("", d.Found, found)
	flatten("", d.Desired, desired)
	var differences []string
	for _, field := range slices.Sorted(maps.Keys(desired)) {
		if value := cmp.Or(found[field], "nothing"); value != desired[field] {
			differences = append(differences, fmt.Sprintf("%s: desired %s, found %s", field, desired[field], value))
		}
	}
	return strings.Join(differences, "; ")
}

// flatten adds the values of fields by their paths, such as spec.template.spec.containers[nginx].image.
func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case *appsv1.Deployment:
		object, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(value) // It has no unknown types.
		flatten(path, object, into)
	case map[string]any:
		for key, field := range value {
			flatten(strings.TrimPrefix(path+"."+key, "."), field, into)
		}
	case []any:
		for i, item := range value {
			fields, _ := item.(map[string]any)
			flatten(fmt.Sprintf("%s[%v]", path, cmp.Or(fields["name"], any(i))), item, into)
		}
	default:
		into[path] = fmt.Sprintf("%#v", value)
	}
}
