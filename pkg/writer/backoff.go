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

// Backoff limits how often one kind of objects is written in one way: the writes for one generation of a Foo are at least 1 s apart, and
// the time doubles with each of them up to 1000 s. A new spec is written at once.
type Backoff struct {
	delays *flowcontrol.Backoff
	// rejections maps the cache.ObjectName of a Foo to the error that started its last backoff, or to nil.
	rejections sync.Map
}

// NewBackoff returns a Backoff that the methods of the Writer take into account. Call it before Start.
func (w *Writer) NewBackoff() *Backoff {
	b := &Backoff{delays: flowcontrol.NewBackOff(time.Second, 1000*time.Second)}
	w.backoffs = append(w.backoffs, b)
	return b
}

// Start starts the backoff of a Foo. rejection is the error with which the API server rejected a write, or nil if it did not, but the write
// may have to be repeated: that after a rejection starts at 1 s again.
func (b *Backoff) Start(foo *samplev1alpha1.Foo, rejection error) {
	if rejection == nil && b.LastRejection(foo) != nil {
		b.reset(foo)
	}
	b.delays.Next(backoffID(foo), time.Now())
	b.rejections.Store(cache.MetaObjectToName(foo), rejection)
}

// StartIfRejected starts the backoff, and returns the error of a write as a StalledError, if the API server rejects what was written.
func (b *Backoff) StartIfRejected(foo *samplev1alpha1.Foo, err error) error {
	stalled := foostatus.AsStalled(err)
	if stalled != err {
		b.Start(foo, stalled)
	}
	return stalled
}

// IsRunning reports whether the backoff of a Foo is not over yet.
func (b *Backoff) IsRunning(foo *samplev1alpha1.Foo) bool { return b.wasRunning(foo, time.Now()) }

func (b *Backoff) wasRunning(foo *samplev1alpha1.Foo, at time.Time) bool {
	return b.delays.IsInBackOffSinceUpdate(backoffID(foo), at)
}

// LastRejection returns the rejection that started the last backoff of a Foo, or nil if none did. The Foo's status does not report it if
// the status could not be written.
func (b *Backoff) LastRejection(foo *samplev1alpha1.Foo) error {
	rejection, _ := b.rejections.Load(cache.MetaObjectToName(foo))
	err, _ := rejection.(error)
	return err
}

// duration returns the duration of the current or last backoff of a Foo, or 0 if its newest generation has had none.
func (b *Backoff) duration(foo *samplev1alpha1.Foo) time.Duration {
	return b.delays.Get(backoffID(foo))
}

func (b *Backoff) reset(foo *samplev1alpha1.Foo) {
	b.delays.Reset(backoffID(foo))
	b.rejections.Delete(cache.MetaObjectToName(foo))
}

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }

// StartBackoff starts the backoffs of creating and of patching the Deployment of a Foo.
func (w *Writer) StartBackoff(foo *samplev1alpha1.Foo) {
	w.creations.Start(foo, nil)
	w.patches.Start(foo, nil)
}

// IsInBackoff reports whether a backoff of a Foo is not over yet.
func (w *Writer) IsInBackoff(foo *samplev1alpha1.Foo) bool {
	return slices.ContainsFunc(w.backoffs, func(b *Backoff) bool { return b.IsRunning(foo) })
}

// RetryAfter returns the delay after which a stalled Foo has to be synced again: the shortest backoff that is not over yet or, if all are,
// overrideDelay, after which LastOverride returns nil.
func (w *Writer) RetryAfter(foo *samplev1alpha1.Foo) time.Duration {
	var delays []time.Duration
	for _, b := range w.backoffs {
		if b.IsRunning(foo) {
			delays = append(delays, b.duration(foo))
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
		if !b.IsRunning(foo) {
			b.reset(foo)
		}
	}
}

// LastOverride returns the error DeploymentOverridden that a Foo's status reports until the Deployment has stayed in its desired state for
// overrideDelay longer than the backoff, and nil otherwise.
func (w *Writer) LastOverride(foo *samplev1alpha1.Foo) error {
	at := time.Now().Add(-overrideDelay)
	if w.creations.wasRunning(foo, at) || w.patches.wasRunning(foo, at) {
		return foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	return nil
}
