// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxRepeated is how often an instance may repeat a request in a second: more than a retry delay of 5 ms that doubles allows for each of the
// users' objects.
const maxRepeated = 64

// repetitionJudge judges, of BoundedWork, that no request is repeated without end.
func repetitionJudge(w *walk) judge {
	return judge{sent: func(i *instance, r *request) {
		if r.Verb == "watch" || !isWork(r.Resource) {
			return
		}
		repeated := w.sentSince(r.Sent.Add(-time.Second), func(other *request) bool {
			return other.Verb == r.Verb && other.Subresource == r.Subresource && other.ref == r.ref && other.Client == r.Client
		})
		if len(repeated) > maxRepeated {
			w.violated(BoundedWork, "%s makes %d requests in a second: %s", i.name, len(repeated), r)
		}
	}}
}

// longRetry is how often a program may try again during a fault that lasts for hours.
const longRetry = 30 * time.Second

// maxFollowing is how many writes may follow on the creation of an object: each progress may be one.
const maxFollowing = 8

// judgeWork bounds the writes by what has happened, and by the resyncs: what cannot be written may be tried again at each.
func (w *walk) judgeWork() {
	counts, created := map[schema.GroupResource]int{}, map[schema.GroupResource]int{}
	for _, r := range w.requested(w.start, func(r *request) bool { return r.IsWrite() }) {
		counts[r.Resource]++
		if r.Verb == "create" && r.Subresource == "" {
			created[r.Resource]++
		}
	}
	interval := w.Resync
	if w.script.long != nil {
		interval = longRetry
	}
	retries := int(time.Since(w.start)/interval) * w.Objects
	for resource, n := range counts {
		if limit := 3*w.happened + 30 + retries; created[resource] > limit || n > limit+maxFollowing*created[resource] {
			w.lock.Lock()
			most := w.mostFrequent(w.start, func(r *request) bool { return r.Resource == resource })
			w.lock.Unlock()
			w.violated(BoundedWork, "%d writes of %s after %d actions and faults, %s", n, resource, w.happened, most)
		}
	}
}
