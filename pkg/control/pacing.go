// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// memoryTime is how long after its end a pause is remembered, unless the desired state is held.
	memoryTime = 2 * maxPause
)

// pacer keeps a controller from writing as fast as others change, delete or reject what it writes. The first write
// of an object for a generation of its owner is made at once, and each that the API server accepts or rejects
// starts a pause of 1 s. It doubles, up to 1000 s, until the desired state is held after one. It does not use
// flowcontrol.Backoff, which does not tell when a backoff ends. Several owners may be synced concurrently, each
// once at a time.
type pacer struct{ pauses sync.Map } // of key and pause

// key has the UID of the object, so that a new one has a pause of its own; "" is for creations. With nothing but the
// owner it is for the status, and with the resource besides for the last write of any object: see hasWritten.
type key struct {
	owner, object types.UID
	resource      schema.GroupResource
	name          string
	generation    int64
}

type pause struct {
	length    time.Duration
	end       time.Time
	rejection string // The API server's message if it has rejected the last write.
	waited    bool   // Whether the write was rejected, or another had to wait for the end.
}

func (p pause) remaining() time.Duration { return max(0, time.Until(p.end)) }

// run forgets, until ctx is done, the pauses that ended more than memoryTime ago.
func (p *pacer) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		p.pauses.Range(func(key, last any) bool {
			if time.Since(last.(pause).end) > memoryTime {
				p.pauses.CompareAndDelete(key, last)
			}
			return true
		})
	}, time.Minute)
}

func (p *pacer) last(key key) pause {
	value, _ := p.pauses.Load(key)
	last, _ := value.(pause)
	return last
}

// when returns the pause that a write has to wait for, if any. Like When of a workqueue's rate limiter, it is
// called to act: that a write has to wait prolongs the next pause, since somebody has undone the last one, or it
// was rejected.
func (p *pacer) when(key key) (last pause, isPaused bool) {
	last = p.last(key)
	if last.remaining() == 0 {
		return pause{}, false
	}
	last.waited = true
	p.pauses.Store(key, last)
	return last, true
}

// found notes that an object is in its desired state, so that no write waits any more, and returns after how long
// this, if it is still so then, counts as held. Once it does, the pauses of the object are forgotten.
func (p *pacer) found(of key) (untilHeld time.Duration) {
	created := of
	created.object = ""
	for _, of := range []key{of, created} {
		last := p.last(of)
		untilHeld = max(untilHeld, time.Until(last.end)+heldDelay)
		if last.waited {
			last.waited = false
			p.pauses.Store(of, last)
		}
	}
	if untilHeld == 0 {
		p.pauses.Delete(of)
		p.pauses.Delete(created)
	}
	return untilHeld
}

// hasWritten reports whether the API server has accepted a write of an object of a resource for an owner, within
// memoryTime.
func (p *pacer) hasWritten(owner types.UID, resource schema.GroupResource) bool {
	return p.last(key{owner: owner, resource: resource}).length > 0
}

// answered starts the next pause, and returns it, after the API server has accepted a write or, if its message is
// given, has rejected it.
func (p *pacer) answered(of key, rejection string) pause {
	last, length := p.last(of), initialPause
	if last.waited || time.Since(last.end) < heldDelay {
		length = min(2*last.length, maxPause)
	}
	next := pause{length, time.Now().Add(length), rejection, rejection != ""}
	p.pauses.Store(of, next)
	if rejection == "" {
		p.pauses.Store(key{owner: of.owner, resource: of.resource}, next)
	}
	return next
}

// mayUpdateStatus reports whether the status of an owner may be updated, at most twice a second. If so, the next pause
// starts.
func (p *pacer) mayUpdateStatus(owner types.UID) bool {
	key := key{owner: owner}
	if p.last(key).remaining() > 0 {
		return false
	}
	p.pauses.Store(key, pause{end: time.Now().Add(statusPause)})
	return true
}
