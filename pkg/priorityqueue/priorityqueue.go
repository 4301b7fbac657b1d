// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priorityqueue is client-go's rate-limiting workqueue with two priorities: a user's edit does not wait behind the
// thousands of objects of an initial list or a resync.
package priorityqueue

import (
	"container/list"
	"sync"
	"sync/atomic"
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
	// lock keeps Done from adding an item again while AddLowPriority adds one.
	lock sync.Mutex
}

// New returns a queue whose metrics have the given name.
func New[T comparable](name string, rateLimiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	fifos := &fifos[T]{low: map[T]*list.Element{}}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: fifos})
	delayingQueue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue})
	return &Queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(rateLimiter,
			workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delayingQueue}),
		rateLimiter: rateLimiter,
		fifos:       fifos,
	}
}

// NewRateLimiter returns a rate limiter for retries: exponential for each item, from 5 ms to 1000 s, and 50 per second with a burst of 300
// for all items, whichever is longer.
func NewRateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)},
	)
}

// AddLowPriority adds an item with low priority. One that waits with high priority already keeps it, and one that is being
// processed is added again with high priority.
func (q *Queue[T]) AddLowPriority(item T) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.fifos.addingLow.Store(&item)
	defer q.fifos.addingLow.Store(nil)
	q.Add(item)
}

// Done implements workqueue.TypedInterface.
func (q *Queue[T]) Done(item T) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.TypedRateLimitingInterface.Done(item)
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

	// addingLow is the item that AddLowPriority is adding.
	addingLow atomic.Pointer[T]
}

// isLow reports whether an item is being added with low priority. If another goroutine adds it with high priority at the same time, the
// first of the two calls reports true, and the second one moves the item up.
func (f *fifos[T]) isLow(item T) bool {
	adding := f.addingLow.Load()
	return adding != nil && *adding == item && f.addingLow.CompareAndSwap(adding, nil)
}

// Push implements workqueue.Queue.
func (f *fifos[T]) Push(item T) {
	if f.isLow(item) {
		f.low[item] = f.lowItems.PushBack(item)
		return
	}
	f.highItems.PushBack(item)
}

// Touch implements workqueue.Queue: an item that is added again with high priority moves up.
func (f *fifos[T]) Touch(item T) {
	element, waitsLow := f.low[item]
	if f.isLow(item) || !waitsLow {
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
