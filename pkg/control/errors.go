// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// The reason of a condition and of an event, and their message, for a name that is taken.
const (
	ErrResourceExists     = "ErrResourceExists"
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

// ErrPaused means that a status, or an object that was deleted, is not written again so soon.
var ErrPaused = errors.New("not written again so soon after the last write")

// StalledError is what stalls a Foo until a user acts. It is reported in the Stalled condition.
type StalledError struct {
	Reason     string        // One word in CamelCase.
	Message    string        // For people.
	RetryAfter time.Duration // When the situation may have changed without an event, or 0 if that is not known.
}

// Error returns the message.
func (e StalledError) Error() string { return e.Message }

// And returns the first of two errors that has a reason. It is retried when the earlier one would be.
func (e StalledError) And(other StalledError) StalledError {
	switch {
	case e.Reason == "":
		return other
	case other.RetryAfter > 0 && (e.RetryAfter == 0 || other.RetryAfter < e.RetryAfter):
		e.RetryAfter = other.RetryAfter
	}
	return e
}

// nameConflict returns the error for an object of the desired name that the Foo does not control.
func nameConflict(name string) StalledError {
	return StalledError{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, name)}
}

// Reported returns the Ready condition of a Foo if it has the reason, and is about its latest generation, or nil.
func Reported(foo *samplev1alpha1.Foo, reason string) *metav1.Condition {
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	if ready == nil || ready.Reason != reason || ready.ObservedGeneration != foo.Generation {
		return nil
	}
	return ready
}

const maxConflicts = 10

// IsRejection reports whether the API server has rejected what was written, so that a retry is in vain until a
// user acts. An admission webhook or policy may do so with any code from 400 to 499, and any reason: who answered
// decides, which only the message says. See k8s.io/apiserver/pkg/admission/plugin/webhook/errors.ToStatusErr.
func IsRejection(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || isNamespaceTerminating(err) { // In such a namespace new objects are Forbidden.
		return false
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	code, message := answer.Status().Code, answer.Status().Message
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		(strings.HasPrefix(message, `admission webhook "`) || strings.Contains(message, ": ValidatingAdmissionPolicy '"))
}

// IsConflict reports whether another client has changed or deleted an object, or deletes its namespace. This is no
// failure, unless it follows maxConflicts retries: they take 5 s, after which the caches should have caught up.
func IsConflict(err error, retries int) bool {
	isConflict := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	return isNamespaceTerminating(err) || isConflict && !IsRejection(err) && retries < maxConflicts
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
