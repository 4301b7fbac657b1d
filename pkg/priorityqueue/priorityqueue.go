// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priorityqueue is client-go's rate-limiting workqueue with two priorities: a user's edit does not
// wait behind the thousands of objects of an initial list or a resync.
package priorityqueue

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Queue is a rate-limiting workqueue that hands out items of high priority first, and items of one priority
// in the order in which they were added. The methods of the embedded interface add with high priority.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	low workqueue.TypedDelayingInterface[*T]
}

// New returns a queue whose metrics have the given name. The delay of a retry is the longer of two: for each
// item exponential, from 5 ms to 1000 s, and for all items that of a bucket of 300 that gains 50 per second.
func New[T comparable](name string) *Queue[T] {
	return newQueue(name, &fifos[T]{low: map[T]*list.Element{}}, workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)},
	))
}

func newQueue[T comparable](name string, fifos *fifos[T], limiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: fifos})
	addHigh := adder[T]{queue, func(item T) {
		fifos.high.Store(item, true)
		queue.Add(item)
	}}
	high := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: addHigh})
	// Of equal items a delaying queue keeps one. The pointers all differ.
	addLow := adder[*T]{workqueue.NewTyped[*T](), func(item *T) { queue.Add(*item) }}
	low := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*T]{Queue: addLow})
	return &Queue[T]{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: high}), low}
}

// adder is a workqueue to which items are added by a function.
type adder[T comparable] struct {
	workqueue.TypedInterface[T]
	add func(item T)
}

func (a adder[T]) Add(item T) { a.add(item) }

// AddLowPriority adds an item with low priority, unless it has been added with high priority already.
func (q *Queue[T]) AddLowPriority(item T) { q.low.Add(&item) }

// AddLowPriorityAfter adds an item with low priority after a delay, and after each of several.
func (q *Queue[T]) AddLowPriorityAfter(item T, delay time.Duration) { q.low.AddAfter(&item, delay) }

// ShutDown shuts the queue down. Items that are delayed are dropped.
func (q *Queue[T]) ShutDown() {
	q.low.ShutDown()
	q.TypedRateLimitingInterface.ShutDown()
}

// fifos implements workqueue.Queue. The workqueue calls it with its lock held.
type fifos[T comparable] struct {
	highItems, lowItems list.List
	// high has the items that were added with high priority and are not pushed yet, as while they are processed.
	high sync.Map
	low  map[T]*list.Element // The elements of lowItems.
}

func (f *fifos[T]) Push(item T) {
	if _, isHigh := f.high.LoadAndDelete(item); isHigh {
		f.highItems.PushBack(item)
		return
	}
	f.low[item] = f.lowItems.PushBack(item)
}

// Touch moves up an item that is added again with high priority.
func (f *fifos[T]) Touch(item T) {
	_, isHigh := f.high.LoadAndDelete(item)
	if element, waitsLow := f.low[item]; isHigh && waitsLow {
		delete(f.low, item)
		f.lowItems.Remove(element)
		f.highItems.PushBack(item)
	}
}

func (f *fifos[T]) Len() int { return f.highItems.Len() + f.lowItems.Len() }

func (f *fifos[T]) Pop() T {
	if front := f.highItems.Front(); front != nil {
		return f.highItems.Remove(front).(T)
	}
	item := f.lowItems.Remove(f.lowItems.Front()).(T)
	delete(f.low, item)
	return item
}
