// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priority is a workqueue in which news goes before what can wait: a user's edit does not stand behind the thousands of
// objects of a first list or a resync.
package priority

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// backlog is what workqueue_depth leaves out.
var backlog = metrics.NewGauge(&metrics.GaugeOpts{
	Subsystem: "sample_controller", Name: "backlog", StabilityLevel: metrics.ALPHA,
	Help: "Number of Foos of the first list or of a resync that wait until the workqueue has room for them.",
})

func init() { legacyregistry.MustRegister(backlog) }

// giveWayPeriod is how long the backlog gives way to a user: a script, or a series of manifests, hardly takes longer from one
// object to the next.
const giveWayPeriod = time.Second

// Queue is a rate-limited workqueue and, before it, a backlog of items that can wait. Of these there are never more than a few in
// the workqueue, or being worked on: as soon as one is done, the next one lines up behind the news. While users change objects
// they are half as many, so that one of 2 workers is free, and the API server, with fewer requests under way, answers each sooner.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]

	lock sync.Mutex
	// waiting is the backlog. Its order is that of order, which also holds earlier places of items that no longer wait.
	waiting map[T]struct{}
	order   []T
	// admitted are the items of the backlog that are in the workqueue or being worked on, at most limit.
	admitted map[T]struct{}
	limit    int
	// urgent is how many items were added as urgent in the last giveWayPeriod.
	urgent int
}

// NewRateLimiter returns how retries wait: 5 ms at first, each time twice as long, and 1000 s at most; all together 50 times a
// second, after a burst of 300. The longer of the two waits counts.
func NewRateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)},
	)
}

// NewQueue returns a queue whose metrics have the given name, and whose retries wait as the rate limiter says.
func NewQueue[T comparable](name string, rateLimiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	config := workqueue.TypedRateLimitingQueueConfig[T]{Name: name}
	return &Queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(rateLimiter, config),
		waiting:                    map[T]struct{}{},
		admitted:                   map[T]struct{}{},
		limit:                      1,
	}
}

// SetLimit sets how many items of the backlog are worked on at the same time as long as it does not give way, which is 1 at
// first. Fewer than there are workers let news find one that is free.
func (q *Queue[T]) SetLimit(limit int) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.limit = limit
	q.admit()
}

// Add adds an item about which there is news. If it is in the backlog, it waits no longer.
func (q *Queue[T]) Add(item T) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.leave(item)
	q.TypedRateLimitingInterface.Add(item)
}

// AddUrgent adds an item that a user has changed, as Add does. The backlog gives way for a second.
func (q *Queue[T]) AddUrgent(item T) {
	q.lock.Lock()
	q.urgent++
	q.lock.Unlock()
	time.AfterFunc(giveWayPeriod, func() {
		q.lock.Lock()
		defer q.lock.Unlock()
		q.urgent--
		q.admit()
	})
	q.Add(item)
}

// AddLater adds an item to the end of the backlog, unless it is there already, or has just been admitted from there.
func (q *Queue[T]) AddLater(item T) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if _, waits := q.waiting[item]; waits {
		return
	}
	if _, isIn := q.admitted[item]; isIn {
		q.TypedRateLimitingInterface.Add(item)
		return
	}
	q.waiting[item] = struct{}{}
	q.order = append(q.order, item)
	backlog.Inc()
	q.admit()
}

// Done says that the work on an item has ended, so that the next one of the backlog can line up.
func (q *Queue[T]) Done(item T) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.TypedRateLimitingInterface.Done(item)
	delete(q.admitted, item)
	q.admit()
}

// admit lets items of the backlog into the workqueue, as far as the limit allows. q.lock is held.
func (q *Queue[T]) admit() {
	limit := q.limit
	if q.urgent > 0 {
		limit = (limit + 1) / 2 // Not 0, so that nothing waits for ever.
	}
	for len(q.admitted) < limit && len(q.waiting) > 0 {
		item := q.order[0]
		q.order = q.order[1:]
		if _, waits := q.waiting[item]; waits {
			q.leave(item)
			q.admitted[item] = struct{}{}
			q.TypedRateLimitingInterface.Add(item)
		}
	}
}

// leave takes an item from the backlog, if it is there. q.lock is held.
func (q *Queue[T]) leave(item T) {
	if _, waits := q.waiting[item]; !waits {
		return
	}
	delete(q.waiting, item)
	backlog.Dec()
	if len(q.waiting) == 0 {
		q.order = nil                // Only places of items that no longer wait are left.
		q.waiting = map[T]struct{}{} // One that has grown does not shrink.
	}
}
