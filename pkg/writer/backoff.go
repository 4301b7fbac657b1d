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

// StartBackoff starts the backoff of a Foo's writes, or doubles it if they were in backoff before. rejection is the error because of which
// it starts, or nil if another client changes or deletes what is written.
func (w *Writer) StartBackoff(foo *samplev1alpha1.Foo, rejection error) {
	w.backoff.Next(backoffID(foo), time.Now())
	if rejection == nil {
		w.rejections.Delete(cache.MetaObjectToName(foo))
	} else {
		w.rejections.Store(cache.MetaObjectToName(foo), rejection)
	}
}

// AsStalled returns the error of a write as a StalledError, and starts the backoff, if the API server rejects what was written.
func (w *Writer) AsStalled(foo *samplev1alpha1.Foo, err error) error {
	stalled := foostatus.AsStalled(err)
	if stalled != err {
		w.StartBackoff(foo, stalled)
	}
	return stalled
}

// Backoff returns how long the last backoff of a Foo's writes lasts or has lasted, and 0 if there was none for its newest spec.
func (w *Writer) Backoff(foo *samplev1alpha1.Foo) time.Duration {
	return w.backoff.Get(backoffID(foo))
}

// IsInBackoff reports whether the backoff of a Foo's writes is not over yet.
func (w *Writer) IsInBackoff(foo *samplev1alpha1.Foo) bool { return w.isInBackoff(foo, 0) }

// isInBackoff reports whether the backoff of a Foo's writes is not over yet, or ended less than the given time ago.
func (w *Writer) isInBackoff(foo *samplev1alpha1.Foo, ago time.Duration) bool {
	return w.backoff.IsInBackOffSinceUpdate(backoffID(foo), time.Now().Add(-ago))
}

// LastRejection returns the error because of which the backoff of a Foo's writes started, if the API server rejected one, and nil
// otherwise. The Foo's status may not say so, if it could not be written.
func (w *Writer) LastRejection(foo *samplev1alpha1.Foo) error {
	if rejection, ok := w.rejections.Load(cache.MetaObjectToName(foo)); ok {
		return rejection.(error)
	}
	return nil
}

// LastOverride returns the error that the status of a Foo reports if its Deployment, which is in its desired state, was overridden shortly
// before, and nil otherwise.
func (w *Writer) LastOverride(foo *samplev1alpha1.Foo) error {
	if w.isInBackoff(foo, overrideDelay) {
		return foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	return nil
}

// ResetBackoff makes the next backoff of a Foo's writes the shortest one, unless the last one is not over yet.
func (w *Writer) ResetBackoff(foo *samplev1alpha1.Foo) {
	if !w.IsInBackoff(foo) {
		w.backoff.Reset(backoffID(foo))
	}
}

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }
