// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps a controller from writing as fast as others change, delete or reject what it writes.
package pacing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
// state was held after the last one. A status is updated at most twice a second. It is safe for concurrent use.
//
// It does not use flowcontrol.Backoff, which does not tell when a backoff ends.
type Pacer struct {
	lock   sync.Mutex
	pauses map[key]pause
}

// key has the UID of the object, so that a new one has a pause of its own. Without it, it is about creations.
type key struct {
	owner, object types.UID
	name          string
	generation    int64
}

type pause struct {
	length    time.Duration
	end       time.Time
	rejection string // The API server's message if the write was rejected.
	waited    bool   // Did a write have to wait for the end?
}

// New returns a Pacer.
func New() *Pacer { return &Pacer{pauses: map[key]pause{}} }

// Run forgets, until ctx is done, the pauses that ended twice the maximum ago.
func (p *Pacer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		p.lock.Lock()
		defer p.lock.Unlock()
		maps.DeleteFunc(p.pauses, func(_ key, last pause) bool { return time.Since(last.end) > 2*maxPause })
	}, time.Minute)
}

func keyOf(owner, object metav1.Object) key {
	return key{owner.GetUID(), object.GetUID(), object.GetName(), owner.GetGeneration()}
}

// PausedError says that an object must not be written before the end of a pause.
type PausedError struct {
	RetryAfter time.Duration // until the end of the pause
	Rejection  string        // The API server's message if it rejected the last write.
}

// Error returns the rejection, if there is one.
func (e *PausedError) Error() string {
	return cmp.Or(e.Rejection, fmt.Sprintf("not written before the end of the write pause, in %s", e.RetryAfter))
}

// Check returns nil if an object may be written now, or a PausedError: see When.
func (p *Pacer) Check(owner, object metav1.Object) error {
	if delay, rejection := p.When(owner, object); delay > 0 {
		return &PausedError{delay, rejection}
	}
	return nil
}

// When returns how long a write of an object has to wait, and what the API server rejected before, if it did. Like
// that of a workqueue's rate limiter, it is called to act: that a write has to wait prolongs the next pause, since
// somebody has undone the last one, or it was rejected.
func (p *Pacer) When(owner, object metav1.Object) (delay time.Duration, rejection string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	last := p.pauses[keyOf(owner, object)]
	if delay = time.Until(last.end); delay <= 0 {
		return 0, ""
	}
	last.waited = true
	p.pauses[keyOf(owner, object)] = last
	return delay, last.rejection
}

// UntilHeld returns after how long the desired state of an object, if it is still found then, counts as held.
func (p *Pacer) UntilHeld(owner, object metav1.Object) time.Duration {
	p.lock.Lock()
	defer p.lock.Unlock()
	changes := keyOf(owner, object)
	creations := changes
	creations.object = ""
	return max(0, time.Until(p.pauses[changes].end)+heldDelay, time.Until(p.pauses[creations].end)+heldDelay)
}

// HasWritten reports whether Answered was called for an object and the generation of its owner.
func (p *Pacer) HasWritten(owner, object metav1.Object) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.pauses[keyOf(owner, object)].length > 0
}

// Answered starts the next pause after the API server has accepted a write of an object or, if a rejection is
// given, has rejected it.
func (p *Pacer) Answered(owner, object metav1.Object, rejection string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	last, length := p.pauses[keyOf(owner, object)], initialPause
	if last.waited || time.Since(last.end) < heldDelay {
		length = min(2*last.length, maxPause)
	}
	p.pauses[keyOf(owner, object)] = pause{length: length, end: time.Now().Add(length), rejection: rejection}
}

// WhenStatus returns how long the next update of the owner's status has to wait.
func (p *Pacer) WhenStatus(owner metav1.Object) time.Duration {
	p.lock.Lock()
	defer p.lock.Unlock()
	return max(0, time.Until(p.pauses[key{owner: owner.GetUID()}].end))
}

// UpdatedStatus starts the pause after an update of the owner's status that was sent at a time.
func (p *Pacer) UpdatedStatus(owner metav1.Object, sent time.Time) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.pauses[key{owner: owner.GetUID()}] = pause{end: sent.Add(statusPause)}
}
