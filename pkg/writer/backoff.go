// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

// overrideDelay is added to the backoff before a Deployment that stays in its desired state is no longer reported as overridden, because
// another instance with the same backoff may be about to change it.
const overrideDelay = 2 * time.Second

// StartBackoff starts the backoff of a Foo's writes: 1 s, doubled by each further call up to 1000 s. rejection is the error with which the
// API server rejected the write, or nil if it did not, but the write may have to be repeated.
func (w *Writer) StartBackoff(foo *samplev1alpha1.Foo, rejection error) {
	w.backoff.Next(backoffID(foo), time.Now())
	if rejection == nil {
		w.rejections.Delete(cache.MetaObjectToName(foo))
	} else {
		w.rejections.Store(cache.MetaObjectToName(foo), rejection)
	}
}

// BackOffIfRejected starts the backoff, and returns the error of a write as a StalledError, if the API server rejects what was written.
func (w *Writer) BackOffIfRejected(foo *samplev1alpha1.Foo, err error) error {
	stalled := foostatus.AsStalled(err)
	if stalled != err {
		w.StartBackoff(foo, stalled)
	}
	return stalled
}

// Backoff returns the duration of the current or last backoff of a Foo's writes, or 0 if its newest generation has had none.
func (w *Writer) Backoff(foo *samplev1alpha1.Foo) time.Duration { return w.backoff.Get(backoffID(foo)) }

// IsInBackoff reports whether the backoff of a Foo's writes is not over yet.
func (w *Writer) IsInBackoff(foo *samplev1alpha1.Foo) bool {
	return w.backoff.IsInBackOffSinceUpdate(backoffID(foo), time.Now())
}

// ResetBackoff makes the next backoff of a Foo's writes start at 1 s again, unless one is running.
func (w *Writer) ResetBackoff(foo *samplev1alpha1.Foo) {
	if !w.IsInBackoff(foo) {
		w.backoff.Reset(backoffID(foo))
		w.rejections.Delete(cache.MetaObjectToName(foo))
	}
}

// LastRejection returns the rejection that started the last backoff of a Foo's writes, or nil if none did. The Foo's status does not
// report it if the status could not be written.
func (w *Writer) LastRejection(foo *samplev1alpha1.Foo) error {
	if rejection, ok := w.rejections.Load(cache.MetaObjectToName(foo)); ok {
		return rejection.(error)
	}
	return nil
}

// LastOverride returns the error DeploymentOverridden that a Foo's status reports until the Deployment has stayed in its desired state for
// overrideDelay longer than the backoff, and nil otherwise.
func (w *Writer) LastOverride(foo *samplev1alpha1.Foo) error {
	if w.backoff.IsInBackOffSinceUpdate(backoffID(foo), time.Now().Add(-overrideDelay)) {
		return foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	return nil
}

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }
