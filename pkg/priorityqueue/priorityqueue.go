// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package priorityqueue is client-go's rate-limiting workqueue with two priorities: a user's edit does not
// wait behind the thousands of objects of an initial list or a resync, nor behind their retries.
package priorityqueue

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"k8s.io/sample-controller/pkg/metrics"
)

// maxLowWait is how long an item of low priority waits behind those of high priority. Then it is overdue: as
// long as one is, every second item that is handed out is the oldest of low priority. So one of high priority
// with n of high priority before it waits for at most n+1 overdue ones, however many there are.
const maxLowWait = 30 * time.Second

// The retry delay of an item starts at FirstRetryDelay and doubles with each failure, up to MaxRetryDelay.
const (
	FirstRetryDelay = 5 * time.Millisecond
	MaxRetryDelay   = 1000 * time.Second
)

// Queue is a rate-limiting workqueue that hands out items of high priority first, until others are overdue.
// Items of one priority keep their order. Add and AddAfter add with high priority, and a retry keeps the priority
// with which its item is processed. An item may have one delay of each priority.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	low   workqueue.TypedRateLimitingInterface[T]
	fifos *fifos[T]
}

// New returns a queue whose metrics have the given name. The delay of a retry is the longer of two: for each
// item exponential, from 5 ms to 1000 s, and for all items that of a bucket of 300 that gains 50 per second,
// but at most 30 s. If more fail, the bucket has a debt. While it has, only their own delays limit how often
// items are retried: every 30 s until the 13th failure, and then every 41 s to 1000 s.
func New[T comparable](name string) *Queue[T] {
	bucket := &workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(50), 300)}
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](FirstRetryDelay, MaxRetryDelay),
		workqueue.NewTypedWithMaxWaitRateLimiter(bucket, 30*time.Second),
	)
	rateLimiting := func(queue workqueue.TypedInterface[T]) workqueue.TypedRateLimitingInterface[T] {
		config := workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue}
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(config)})
	}
	fifos := &fifos[T]{name: name, low: map[T]*list.Element{}}
	low := rateLimiting(workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: fifos}))
	return &Queue[T]{rateLimiting(highPriority[T]{low, fifos}), low, fifos}
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

// RetryAfter adds an item that is being processed, with its priority, after a delay.
func (q *Queue[T]) RetryAfter(item T, delay time.Duration) { q.processedIn(item).AddAfter(item, delay) }

// AddRateLimited adds an item that is being processed, with its priority, after the delay of the rate limiter.
func (q *Queue[T]) AddRateLimited(item T) { q.processedIn(item).AddRateLimited(item) }

func (q *Queue[T]) processedIn(item T) workqueue.TypedRateLimitingInterface[T] {
	if _, isLow := q.fifos.processedLow.Load(item); isLow {
		return q.low
	}
	return q.TypedRateLimitingInterface
}

// Done marks an item as processed.
func (q *Queue[T]) Done(item T) {
	q.fifos.processedLow.Delete(item)
	q.low.Done(item)
}

// lowItem is an item of low priority, and when it was queued.
type lowItem[T comparable] struct {
	item     T
	queuedAt time.Time
}

// fifos implements workqueue.Queue. The workqueue calls it with its lock held.
type fifos[T comparable] struct {
	name                string
	highItems, lowItems list.List
	low                 map[T]*list.Element // The elements of lowItems, which have lowItem values.
	lastWasLow          bool                // Whether the last item that was handed out had low priority.
	// high has the items that were added with high priority and are not pushed yet, as while they are processed.
	high         sync.Map
	processedLow sync.Map // It has those that are being processed with low priority.
}

func (f *fifos[T]) Push(item T) {
	f.low[item] = f.lowItems.PushBack(lowItem[T]{item, time.Now()})
	f.Touch(item)
}

// Touch moves up an item that is added with high priority.
func (f *fifos[T]) Touch(item T) {
	_, isHigh := f.high.LoadAndDelete(item)
	if element, waitsLow := f.low[item]; isHigh && waitsLow {
		delete(f.low, item)
		f.lowItems.Remove(element)
		f.highItems.PushBack(item)
	}
	f.recordDepth()
}

func (f *fifos[T]) Len() int { return f.highItems.Len() + f.lowItems.Len() }

func (f *fifos[T]) Pop() T {
	oldest := f.lowItems.Front()
	isOverdue := oldest != nil && time.Since(oldest.Value.(lowItem[T]).queuedAt) >= maxLowWait
	f.lastWasLow = f.highItems.Len() == 0 || isOverdue && !f.lastWasLow
	defer f.recordDepth()
	if !f.lastWasLow {
		return f.highItems.Remove(f.highItems.Front()).(T)
	}
	item := f.lowItems.Remove(oldest).(lowItem[T]).item
	delete(f.low, item)
	f.processedLow.Store(item, true)
	return item
}

func (f *fifos[T]) recordDepth() {
	metrics.QueueDepth.WithLabelValues(f.name, "high").Set(float64(f.highItems.Len()))
	metrics.QueueDepth.WithLabelValues(f.name, "low").Set(float64(f.lowItems.Len()))
}
