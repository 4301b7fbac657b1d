// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"
)

// silence judges whether anything is requested while nothing changes. Unless the program promises Unseen, it may need a resync before.
func (w *walk) silence() {
	w.lock.Lock()
	late := time.Until(w.lateUntil())
	w.lock.Unlock()
	w.sleep(late)
	if slices.Contains(w.exempt, Unseen) {
		w.sleep(w.resyncTime())
	}
	w.judgeSteady(Silence, "nothing changes", w.resyncTime(), func(r *request) bool { return r.Verb != "watch" })
}

// resyncTime returns how long it may take until a resync: client-go skips one that comes a moment early.
func (w *walk) resyncTime() time.Duration { return 2*w.Resync + w.Resync/4 }

// maxHeldAtStart is how long watches are held at most: less than the two minutes for which controller-runtime waits for a cache to sync.
const maxHeldAtStart = 90 * time.Second

// restart kills all instances, and judges whether the next ones write anything. Unless the Lease lasts long, one leads earlier than its
// watches have caught up.
func (w *walk) restart() {
	begin := w.orElection(startTime)
	held := min(begin, maxHeldAtStart)
	w.lock.Lock()
	w.heldAtStart = held
	w.lock.Unlock()
	for n := range w.Instances {
		w.current(n).stop(true)
	}
	w.judgeSteady(Restart, "the instances were restarted", held+begin, func(r *request) bool { return r.IsWrite() })
	w.lock.Lock()
	w.heldAtStart = 0
	w.lock.Unlock()
}

// judgeSteady lets time pass, and judges the requests that count in that time. What the API server refuses for ever may be tried again.
func (w *walk) judgeSteady(promise Promise, because string, duration time.Duration, counts func(r *request) bool) {
	since := time.Now()
	w.sleep(duration)
	if made := w.requested(since, func(r *request) bool { return counts(r) && !w.rejected[r.about] }); len(made) > 0 {
		w.violated(promise, "%s, and %s makes %d requests, the first after %s: %s", because, made[0].Client, len(made), made[0].Sent.Sub(since), made[0])
	}
}
