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

// maxLowWait is how long an item of low priority waits behind those of high priority. Then it is overdue: as
// long as one is, every second item that is handed out is the oldest of low priority. So one of high priority
// with n of high priority before it waits for at most n+1 overdue ones, however many there are.
const maxLowWait = 30 * time.Second

// Queue is a rate-limiting workqueue that hands out items of high priority first, until others are overdue.
// Items of one priority keep their order. The methods of the embedded interface add with high priority.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	low workqueue.TypedInterface[T]
}

// New returns a queue whose metrics have the given name. The delay of a retry is the longer of two: for each
// item exponential, from 5 ms to 1000 s, and for all items that of a bucket of 300 that gains 50 per second,
// but at most 30 s. If more fail, the bucket has a debt. While it has, only their own delays limit how often
// items are retried: every 30 s until the 13th failure, and then every 41 s to 1000 s.
func New[T comparable](name string) *Queue[T] {
	bucket := &workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)}
	return newQueue(name, &fifos[T]{low: map[T]*list.Element{}}, workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		workqueue.NewTypedWithMaxWaitRateLimiter(bucket, 30*time.Second),
	))
}

func newQueue[T comparable](name string, fifos *fifos[T], limiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	low := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: fifos})
	high := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: highPriority[T]{low, fifos}})
	return &Queue[T]{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: high}), low}
}

// highPriority is a workqueue to which items are added with high priority.
type highPriority[T comparable] struct {
	workqueue.TypedInterface[T]
	fifos *fifos[T]
}

func (q highPriority[T]) Add(item T) {
	q.fifos.high.Store(item, true)
	q.TypedInterface.Add(item)
}

// AddLowPriority adds an item with low priority, unless it has been added with high priority already.
func (q *Queue[T]) AddLowPriority(item T) { q.low.Add(item) }

// lowItem is an item of low priority, and when it was queued.
type lowItem[T comparable] struct {
	item     T
	queuedAt time.Time
}

// fifos implements workqueue.Queue. The workqueue calls it with its lock held.
type fifos[T comparable] struct {
	highItems, lowItems list.List
	// high has the items that were added with high priority and are not pushed yet, as while they are processed.
	high       sync.Map
	low        map[T]*list.Element // The elements of lowItems, which have lowItem values.
	lastWasLow bool                // Whether the last item that was handed out had low priority.
}

func (f *fifos[T]) Push(item T) {
	if _, isHigh := f.high.LoadAndDelete(item); isHigh {
		f.highItems.PushBack(item)
		return
	}
	f.low[item] = f.lowItems.PushBack(lowItem[T]{item, time.Now()})
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
	oldest := f.lowItems.Front()
	isOverdue := oldest != nil && time.Since(oldest.Value.(lowItem[T]).queuedAt) >= maxLowWait
	f.lastWasLow = f.highItems.Len() == 0 || isOverdue && !f.lastWasLow
	if !f.lastWasLow {
		return f.highItems.Remove(f.highItems.Front()).(T)
	}
	item := f.lowItems.Remove(oldest).(lowItem[T]).item
	delete(f.low, item)
	return item
}
