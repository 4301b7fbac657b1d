// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priorityqueue is client-go's rate-limiting workqueue with two priorities: a user's edit does not wait behind the
// thousands of objects of an initial list or a resync.
package priorityqueue

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Queue is a rate-limiting workqueue that hands out items of high priority before those of low priority, and items of the same
// priority in the order in which they were added. Everything but AddLowPriority adds with high priority.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]

	rateLimiter workqueue.TypedRateLimiter[T]
	fifos       *fifos[T]
}

// New returns a queue whose metrics have the given name.
func New[T comparable](name string, rateLimiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	fifos := &fifos[T]{low: map[T]*list.Element{}, lowAdds: map[T]struct{}{}}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: fifos})
	delayingQueue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue})
	return &Queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(rateLimiter,
			workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delayingQueue}),
		rateLimiter: rateLimiter,
		fifos:       fifos,
	}
}

// NewRateLimiter returns a rate limiter for retries: exponential for each item, from 5 ms to 1000 s, and 50 per second with a
// burst of 300 for all of them together, whichever is longer.
func NewRateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)},
	)
}

// AddLowPriority adds an item with low priority. One that waits with high priority already keeps it, and one that is being
// processed is added again with high priority.
func (q *Queue[T]) AddLowPriority(item T) {
	q.fifos.expectLow(item)
	q.Add(item)
	q.fifos.takeLow(item) // It was not queued, because it is being processed.
}

// AddRateLimited adds an item after the delay that the rate limiter demands, and returns the delay.
func (q *Queue[T]) AddRateLimited(item T) time.Duration {
	delay := q.rateLimiter.When(item)
	q.AddAfter(item, delay)
	return delay
}

// fifos implements workqueue.Queue. The workqueue calls it with its own lock held.
type fifos[T comparable] struct {
	highItems, lowItems list.List
	// low has the elements of lowItems.
	low map[T]*list.Element

	// lowAdds are the items that are just being added with low priority.
	lock    sync.Mutex
	lowAdds map[T]struct{}
}

func (f *fifos[T]) expectLow(item T) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.lowAdds[item] = struct{}{}
}

// takeLow reports whether an item is being added with low priority, for the first that asks.
func (f *fifos[T]) takeLow(item T) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	_, ok := f.lowAdds[item]
	delete(f.lowAdds, item)
	return ok
}

// Push implements workqueue.Queue.
func (f *fifos[T]) Push(item T) {
	if f.takeLow(item) {
		f.low[item] = f.lowItems.PushBack(item)
		return
	}
	f.highItems.PushBack(item)
}

// Touch implements workqueue.Queue: an item that is added again with high priority moves up.
func (f *fifos[T]) Touch(item T) {
	element, isLow := f.low[item]
	if f.takeLow(item) || !isLow {
		return
	}
	delete(f.low, item)
	f.lowItems.Remove(element)
	f.highItems.PushBack(item)
}

// Len implements workqueue.Queue.
func (f *fifos[T]) Len() int { return f.highItems.Len() + f.lowItems.Len() }

// Pop implements workqueue.Queue.
func (f *fifos[T]) Pop() T {
	if front := f.highItems.Front(); front != nil {
		return f.highItems.Remove(front).(T)
	}
	item := f.lowItems.Remove(f.lowItems.Front()).(T)
	delete(f.low, item)
	return item
}
