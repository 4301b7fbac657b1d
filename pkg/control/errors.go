// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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

// IsConflict reports whether another client has changed or deleted an object, or deletes its namespace: this is no
// failure unless it goes on. maxConflicts in a row take 5 s, after which the caches should have caught up.
func IsConflict(err error, retries int) bool {
	isConflict := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	return isNamespaceTerminating(err) || isConflict && !IsRejection(err) && retries < maxConflicts
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
