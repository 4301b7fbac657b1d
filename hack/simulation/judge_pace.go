// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"
)

const (
	// paceTime is how far back writes are counted.
	paceTime = time.Minute
	// maxPace is how many writes of an object are too many in that time, whatever others do: two in a second are allowed, and some retries.
	maxPace = 150
	// minPace are allowed if others do nothing, and pacePerChange more for each change of others.
	minPace, pacePerChange = 30, 4
	// steadyTime is how long nothing changes until steadyPace is the limit.
	steadyTime, steadyPace = 10 * time.Minute, 10
)

// paceJudge judges Pace: in any minute the writes of an object, of its status included, are bounded by what others do, and at most by what
// the program may do at its own speed.
func paceJudge(w *walk) judge {
	return judge{sent: func(i *instance, r *request) {
		if !r.IsWrite() || !isWork(r.Resource) {
			return
		}
		since := r.Sent.Add(-paceTime)
		n := len(w.sentSince(since, func(other *request) bool {
			return other.ref == r.ref && other.about == r.about && other.Subresource == r.Subresource && other.IsWrite() && other.Client == r.Client
		}))
		if n <= steadyPace {
			return
		}
		changes := w.changesSince(r, since)
		limit := min(maxPace, minPace+pacePerChange*changes)
		if w.changesSince(r, r.Sent.Add(-steadyTime)) == 0 && w.isSteady() {
			limit = steadyPace
		}
		if n > limit {
			w.violated(Pace, "%s makes %d writes in %s, and others have changed something %d times: %s", i.name, n, paceTime, changes, r)
		}
	}}
}

// changesSince returns how often others than the program have changed the object of a request, or what it is about, or what the program has
// written for that. An object that belongs to nobody is about itself. The lock is held.
func (w *walk) changesSince(r *request, since time.Time) int {
	changes := map[time.Time]bool{} // One is recorded by all that it is about.
	count := func(about string) {
		for _, at := range slices.Backward(w.changedAt[about]) {
			if at.Before(since) {
				break
			}
			changes[at] = true
		}
	}
	count(r.about)
	count(r.ref.String())
	for _, other := range w.sentSince(since, func(other *request) bool { return other.about == r.about && other.IsWrite() }) {
		count(other.ref.String())
	}
	return len(changes)
}

// isSteady reports whether faults have neither begun nor ended for a while. The lock is held.
func (w *walk) isSteady() bool { return time.Since(w.faultsChanged) > steadyTime }
