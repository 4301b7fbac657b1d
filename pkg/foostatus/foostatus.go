// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foostatus computes the status of a Foo from its Deployment, or from the error that prevents it.
package foostatus

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	utilstrings "k8s.io/utils/strings"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Reasons of conditions: those of a rollout, and from DeploymentRejected on those of a StalledError.
const (
	DeploymentAvailable   = "DeploymentAvailable"
	DeploymentProgressing = "DeploymentProgressing"
	DeploymentStalled     = "DeploymentStalled"
	DeploymentRejected    = "DeploymentRejected"   // The message is the API server's.
	DeploymentOverridden  = "DeploymentOverridden" // The message names the fields that others change.
	ErrResourceExists     = "ErrResourceExists"    // The message is MessageResourceExists.
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

// StalledError is what stalls a Foo until a user acts. It is reported in the Stalled condition.
type StalledError struct {
	Reason  string // One word in CamelCase.
	Message string // For people.
}

// Error returns the message.
func (e *StalledError) Error() string { return e.Message }

// NameConflict returns the error for an object of the desired name that the Foo does not control.
func NameConflict(name string) *StalledError {
	return &StalledError{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, name)}
}

// Rejected returns what stalls a Foo after a write of its Deployment has failed with err, or nil if a retry
// may help. Admission webhooks reject with BadRequest and RequestEntityTooLarge as well.
func Rejected(err error) *StalledError {
	rejected := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
	// In a namespace that is being deleted every object is Forbidden.
	if !rejected || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return &StalledError{Reason: DeploymentRejected, Message: err.Error()}
}

// Overridden returns the error that names the differences, or nil if there are none. An error that the status
// of the Foo reports already stays, with its text.
func Overridden(foo *samplev1alpha1.Foo, differences Differences) *StalledError {
	reported := Reported(foo, DeploymentOverridden)
	if reported != nil || !differences.Exist() {
		return reported
	}
	return &StalledError{Reason: DeploymentOverridden, Message: differences.String()}
}

// RejectedOrOverridden returns what stalls a Foo whose Deployment differs and may not be written yet, because
// the last write was rejected, as the Foo reports, or undone.
func RejectedOrOverridden(foo *samplev1alpha1.Foo, differences Differences) *StalledError {
	if rejected := Reported(foo, DeploymentRejected); rejected != nil {
		return rejected
	}
	return Overridden(foo, differences)
}

// Reported returns the error of a reason that the status of a Foo reports for its latest generation, or nil.
func Reported(foo *samplev1alpha1.Foo, reason string) *StalledError {
	condition := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionStalled)
	if condition == nil || condition.Reason != reason || condition.ObservedGeneration != foo.Generation {
		return nil
	}
	return &StalledError{Reason: condition.Reason, Message: condition.Message}
}

// New returns the status of a Foo with a Deployment, which may be nil if err is given.
func New(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, err *StalledError) samplev1alpha1.FooStatus {
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
	if err != nil {
		ready.Reason, ready.Message = err.Reason, err.Message
	} else {
		ready.Reason, ready.Message = rolloutStatus(deployment)
	}
	if ready.Reason == DeploymentAvailable {
		ready.Status = metav1.ConditionTrue
	}
	ready.Message = strings.ToValidUTF8(utilstrings.ShortenString(ready.Message, 32768), "") // The API's limit.
	meta.SetStatusCondition(&status.Conditions, ready)
	if err == nil && ready.Reason != DeploymentStalled {
		meta.RemoveStatusCondition(&status.Conditions, samplev1alpha1.ConditionStalled)
		return status
	}
	ready.Type, ready.Status = samplev1alpha1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// rolloutStatus returns the reason and the message of the Ready condition of a Foo with this Deployment.
func rolloutStatus(deployment *appsv1.Deployment) (reason, message string) {
	if deployment.DeletionTimestamp != nil {
		return DeploymentProgressing, fmt.Sprintf("Deployment %q is being deleted", deployment.Name)
	}
	status, desired := deployment.Status, DesiredReplicas(deployment)
	message = fmt.Sprintf("%d of %d replicas available", status.AvailableReplicas, desired)
	if IsAvailable(deployment) {
		return DeploymentAvailable, message
	}
	for _, c := range status.Conditions {
		// See https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment.
		cannotCreatePods := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		doesNotProgress := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		if cannotCreatePods || doesNotProgress {
			return DeploymentStalled, message + ": " + c.Message
		}
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

// CanTakeOver reports whether a Deployment can replace another: it is available, or no replicas are desired.
func CanTakeOver(deployment *appsv1.Deployment) bool {
	return IsAvailable(deployment) || DesiredReplicas(deployment) == 0 && deployment.DeletionTimestamp == nil
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
