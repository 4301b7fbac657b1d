// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps a controller from writing as fast as others change, delete or reject what it writes.
package pacing

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	initialPause = time.Second
	maxPause     = 1000 * time.Second
	statusPause  = 500 * time.Millisecond
	// heldDelay is how long after a pause the desired state must still be found to count as held: another
	// instance with the same pause may be about to write.
	heldDelay = 2 * time.Second
)

// Pacer paces the writes of objects, each for each generation of its owner: the first is made at once, and each
// that the API server accepts or rejects starts a pause of 1 s. It doubles, up to 1000 s, unless the desired
// state was held after the last one. It does not use flowcontrol.Backoff, which does not tell when a backoff
// ends. Several owners may be synced concurrently, each once at a time.
type Pacer struct{ pauses sync.Map } // of key and pause

// key has the UID of the object, so that a new one has a pause of its own; "" is for creations. Without an object
// and a generation it is for the status.
type key struct {
	owner, object types.UID
	name          string
	generation    int64
}

type pause struct {
	length    time.Duration
	end       time.Time
	rejection string
	waited    bool // Did a write have to wait for the end?
}

// PausedError says that an object must not be written before the end of a pause.
type PausedError struct {
	RetryAfter time.Duration // until the end of the pause
	Rejection  string        // The API server's message if it rejected the last write.
}

func (e PausedError) Error() string {
	return cmp.Or(e.Rejection, fmt.Sprintf("not written before the end of a pause, in %s", e.RetryAfter))
}

// Run forgets, until ctx is done, the pauses that ended twice the maximum ago.
func (p *Pacer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		p.pauses.Range(func(key, last any) bool {
			if time.Since(last.(pause).end) > 2*maxPause {
				p.pauses.Delete(key)
			}
			return true
		})
	}, time.Minute)
}

func (p *Pacer) last(key key) pause {
	value, _ := p.pauses.Load(key)
	last, _ := value.(pause)
	return last
}

func keyOf(owner, object metav1.Object) key {
	return key{owner.GetUID(), object.GetUID(), object.GetName(), owner.GetGeneration()}
}

// When returns the pause that a write of an object has to wait for, if any. Like When of a workqueue's rate
// limiter, it is called to act: that a write has to wait prolongs the next pause, since somebody has undone the
// last one, or it was rejected.
func (p *Pacer) When(owner, object metav1.Object) (paused PausedError, isPaused bool) {
	key := keyOf(owner, object)
	last := p.last(key)
	delay := time.Until(last.end)
	if delay <= 0 {
		return PausedError{}, false
	}
	last.waited = true
	p.pauses.Store(key, last)
	return PausedError{delay, last.rejection}, true
}

// UntilHeld returns after how long the desired state of an object, if it is still found then, counts as held.
func (p *Pacer) UntilHeld(owner, object metav1.Object) time.Duration {
	key := keyOf(owner, object)
	changed := time.Until(p.last(key).end)
	key.object = ""
	created := time.Until(p.last(key).end)
	return max(0, changed+heldDelay, created+heldDelay)
}

// Reset forgets the pauses of an object whose desired state is held.
func (p *Pacer) Reset(owner, object metav1.Object) {
	key := keyOf(owner, object)
	p.pauses.Delete(key)
	key.object = ""
	p.pauses.Delete(key)
}

// HasWritten reports whether Answered was called for an object and the generation of its owner, since a Reset.
func (p *Pacer) HasWritten(owner, object metav1.Object) bool {
	return p.last(keyOf(owner, object)).length > 0
}

// Answered starts the next pause after the API server has accepted a write of an object or, if its message is
// given, has rejected it.
func (p *Pacer) Answered(owner, object metav1.Object, rejection string) {
	last, length := p.last(keyOf(owner, object)), initialPause
	if last.waited || time.Since(last.end) < heldDelay {
		length = min(2*last.length, maxPause)
	}
	p.pauses.Store(keyOf(owner, object), pause{length: length, end: time.Now().Add(length), rejection: rejection})
}

// WhenStatus returns how long the next update of the owner's status has to wait: there are at most two a second.
func (p *Pacer) WhenStatus(owner metav1.Object) time.Duration {
	return max(0, time.Until(p.last(key{owner: owner.GetUID()}).end))
}

// UpdatesStatus records that an update of the owner's status is sent.
func (p *Pacer) UpdatesStatus(owner metav1.Object) {
	p.pauses.Store(key{owner: owner.GetUID()}, pause{end: time.Now().Add(statusPause)})
}
