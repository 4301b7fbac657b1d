// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

// overrideDelay is added to the backoff before a Deployment that stays in its desired state is no longer reported as overridden, because
// another instance with the same backoff may be about to change it.
const overrideDelay = 2 * time.Second

// backoff is the backoff of one kind of writes: 1 s, doubled by each further write up to 1000 s. It is per generation of a Foo, so that
// a new spec is written at once.
type backoff struct {
	*flowcontrol.Backoff
	// rejections has, by cache.ObjectName, the rejection that started the last backoff of a Foo, if one did.
	rejections sync.Map
}

func newBackoff() *backoff {
	return &backoff{Backoff: flowcontrol.NewBackOff(time.Second, 1000*time.Second)}
}

// start starts the backoff of a Foo. rejection is the error with which the API server rejected the write, or nil if it did not, but the
// write may have to be repeated.
func (b *backoff) start(foo *samplev1alpha1.Foo, rejection error) {
	b.Next(backoffID(foo), time.Now())
	if rejection == nil {
		b.rejections.Delete(cache.MetaObjectToName(foo))
	} else {
		b.rejections.Store(cache.MetaObjectToName(foo), rejection)
	}
}

// startIfRejected starts the backoff, and returns the error of a write as a StalledError, if the API server rejects what was written.
func (b *backoff) startIfRejected(foo *samplev1alpha1.Foo, err error) error {
	stalled := foostatus.AsStalled(err)
	if stalled != err {
		b.start(foo, stalled)
	}
	return stalled
}

// isRunning reports whether the backoff of a Foo, plus a delay, is not over yet.
func (b *backoff) isRunning(foo *samplev1alpha1.Foo, delay time.Duration) bool {
	return b.IsInBackOffSinceUpdate(backoffID(foo), time.Now().Add(-delay))
}

// reset makes the next backoff of a Foo start at 1 s again.
func (b *backoff) reset(foo *samplev1alpha1.Foo) {
	b.Reset(backoffID(foo))
	b.rejections.Delete(cache.MetaObjectToName(foo))
}

// lastRejection returns the rejection that started the last backoff of a Foo, or nil if none did. The Foo's status does not report it if
// the status could not be written.
func (b *backoff) lastRejection(foo *samplev1alpha1.Foo) error {
	if rejection, ok := b.rejections.Load(cache.MetaObjectToName(foo)); ok {
		return rejection.(error)
	}
	return nil
}

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }

// StartBackoff starts the backoffs of creating and of patching the Deployment of a Foo.
func (w *Writer) StartBackoff(foo *samplev1alpha1.Foo) {
	w.creations.start(foo, nil)
	w.patches.start(foo, nil)
}

// IsInBackoff reports whether a backoff of a Foo is not over yet.
func (w *Writer) IsInBackoff(foo *samplev1alpha1.Foo) bool {
	return slices.ContainsFunc(w.backoffs, func(b *backoff) bool { return b.isRunning(foo, 0) })
}

// RetryAfter returns the delay after which a stalled Foo has to be synced again: the shortest backoff that is not over yet.
func (w *Writer) RetryAfter(foo *samplev1alpha1.Foo) time.Duration {
	var delays []time.Duration
	for _, b := range w.backoffs {
		if b.isRunning(foo, 0) {
			delays = append(delays, b.Get(backoffID(foo)))
		}
	}
	if len(delays) == 0 {
		return overrideDelay
	}
	return slices.Min(delays)
}

// ResetBackoff makes the next backoffs of a Foo start at 1 s again, except those that are running.
func (w *Writer) ResetBackoff(foo *samplev1alpha1.Foo) {
	for _, b := range w.backoffs {
		if !b.isRunning(foo, 0) {
			b.reset(foo)
		}
	}
}

// LastOverride returns the error DeploymentOverridden that a Foo's status reports until the Deployment has stayed in its desired state for
// overrideDelay longer than the backoff, and nil otherwise.
func (w *Writer) LastOverride(foo *samplev1alpha1.Foo) error {
	if w.creations.isRunning(foo, overrideDelay) || w.patches.isRunning(foo, overrideDelay) {
		return foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	return nil
}
