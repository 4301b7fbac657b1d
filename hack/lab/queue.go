// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// queue is a model of an instance's workqueue. It follows from the log which keys wait, are processed, or are delayed.
type queue struct {
	waiting    map[string]string // priority by key
	processing map[string]*work
	delayed    map[delayedItem]time.Time
}

// delayedItem is a key that is delayed: with each priority once.
type delayedItem struct{ key, priority string }

// work is the processing of a key.
type work struct {
	worker, retries int
	added           string // The priority with which the key was added meanwhile, if it was.
}

func newQueue() queue {
	return queue{waiting: map[string]string{}, processing: map[string]*work{}, delayed: map[delayedItem]time.Time{}}
}

// add adds a key, and returns where it is already.
func (q *queue) add(key, priority string) (merged string) {
	if work := q.processing[key]; work != nil {
		if work.added != "high" {
			work.added = priority
		}
		return "processing"
	}
	waits, ok := q.waiting[key]
	if !ok || waits == "low" {
		q.waiting[key] = priority
	}
	if ok {
		return "waiting"
	}
	return ""
}

// addAfter adds a key at a time. Of several times the earliest counts.
func (q *queue) addAfter(key, priority string, at time.Time) {
	item := delayedItem{key, priority}
	if earlier, ok := q.delayed[item]; !ok || at.Before(earlier) {
		q.delayed[item] = at
	}
}

// elapsed yields the items whose delay has elapsed, with the time of that: those of a key, or all if it is empty.
func (q *queue) elapsed(now time.Time, key string) iter.Seq2[delayedItem, time.Time] {
	return func(yield func(delayedItem, time.Time) bool) {
		items := slices.SortedFunc(maps.Keys(q.delayed), func(a, b delayedItem) int {
			return cmp.Or(q.delayed[a].Compare(q.delayed[b]), cmp.Compare(a.key, b.key), cmp.Compare(a.priority, b.priority))
		})
		for _, item := range items {
			at := q.delayed[item]
			if at.After(now) {
				return
			}
			if key != "" && item.key != key {
				continue
			}
			delete(q.delayed, item)
			if !yield(item, at) {
				return
			}
		}
	}
}

// get takes a key from those that wait, and returns its priority and whether it was known to wait. If it was not, its next delay has elapsed.
func (q *queue) get(key string, retries int) (w *work, priority string, known bool) {
	priority, known = q.waiting[key]
	delete(q.waiting, key)
	if !known {
		priority = q.nextDelayed(key)
		delete(q.delayed, delayedItem{key, priority})
	}
	w = &work{worker: q.freeWorker(), retries: retries}
	q.processing[key] = w
	return w, priority, known
}

// nextDelayed returns the priority with which a key is added next.
func (q *queue) nextDelayed(key string) string {
	low, isLow := q.delayed[delayedItem{key, "low"}]
	high, isHigh := q.delayed[delayedItem{key, "high"}]
	if isLow && (!isHigh || low.Before(high)) {
		return "low"
	}
	return "high"
}

// freeWorker returns the smallest number of a worker that is idle. The log does not say which one takes a key.
func (q *queue) freeWorker() int {
	for number := 1; ; number++ {
		busy := false
		for _, w := range q.processing {
			busy = busy || w.worker == number
		}
		if !busy {
			return number
		}
	}
}

// done ends the processing of a key. If it was added meanwhile, it waits again, and done returns its priority.
func (q *queue) done(key string) (priority string) {
	w := q.processing[key]
	delete(q.processing, key)
	if w == nil || w.added == "" {
		return ""
	}
	q.waiting[key] = w.added
	return w.added
}
