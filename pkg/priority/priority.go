// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priority is a workqueue in which news goes before what can wait: a user's edit does not stand behind the thousands of
// objects of a first list or a resync.
package priority

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// share is how many items are handed out while one that can wait is, so that however much news there is, those get their turn.
const share = 8

// Queue is a rate-limited workqueue of two priorities. Within each, the order is that of the calls.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	order *order[T]
}

// NewQueue returns a queue whose metrics have the given name, and whose retries wait as the rate limiter says.
func NewQueue[T comparable](name string, rateLimiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	order := newOrder[T]()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue})
	return &Queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(rateLimiter,
			workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delaying}),
		order: order,
	}
}

// Add adds an item about which there is news. If it is waiting, it waits no longer. What is added after a delay counts as news.
func (q *Queue[T]) Add(item T) {
	q.order.expect(item, true)
	q.TypedRateLimitingInterface.Add(item)
}

// AddLater adds an item that can wait. An item about which there is news, and which has not been handed out since, stays where
// it is.
func (q *Queue[T]) AddLater(item T) {
	q.order.expect(item, false)
	q.TypedRateLimitingInterface.Add(item)
}

// order is the workqueue.Queue of a Queue. It is called with the workqueue's lock held, but for expect.
type order[T comparable] struct {
	lock sync.Mutex
	// expected says of items that are being added whether there is news about them. If such an item is being worked on, the
	// workqueue keeps it back until that is done.
	expected map[T]bool

	news []T
	// later holds the items that can wait, and earlier places of items that no longer do. waiting are those that do.
	later   []T
	waiting map[T]struct{}
	// turns counts the items that were handed out.
	turns int
}

func newOrder[T comparable]() *order[T] {
	return &order[T]{expected: map[T]bool{}, waiting: map[T]struct{}{}}
}

func (o *order[T]) expect(item T, isNews bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.expected[item] = isNews || o.expected[item]
}

// isNews reports whether there is news about an item that is added, and ends the expectation. o.lock is held.
func (o *order[T]) isNews(item T) bool {
	isNews, ok := o.expected[item]
	delete(o.expected, item)
	return isNews || !ok
}

// Push implements workqueue.Queue.
func (o *order[T]) Push(item T) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.isNews(item) {
		o.news = append(o.news, item)
		return
	}
	o.later = append(o.later, item)
	o.waiting[item] = struct{}{}
}

// Touch implements workqueue.Queue.
func (o *order[T]) Touch(item T) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if _, waits := o.waiting[item]; o.isNews(item) && waits {
		o.stopWaiting(item)
		o.news = append(o.news, item)
	}
}

// Len implements workqueue.Queue.
func (o *order[T]) Len() int {
	o.lock.Lock()
	defer o.lock.Unlock()
	return len(o.news) + len(o.waiting)
}

// Pop implements workqueue.Queue.
func (o *order[T]) Pop() (item T) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.turns++
	if len(o.waiting) == 0 || len(o.news) > 0 && o.turns%share != 0 {
		item, o.news = o.news[0], o.news[1:]
		return item
	}
	for {
		item, o.later = o.later[0], o.later[1:]
		if _, waits := o.waiting[item]; waits {
			o.stopWaiting(item)
			return item
		}
	}
}

// stopWaiting takes an item from those that wait. o.lock is held.
func (o *order[T]) stopWaiting(item T) {
	delete(o.waiting, item)
	if len(o.waiting) == 0 {
		o.later = nil                // Only places of items that no longer wait are left.
		o.waiting = map[T]struct{}{} // One that has grown does not shrink.
	}
}
