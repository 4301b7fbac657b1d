// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	delayed    map[string]time.Time
}

// work is the processing of a key.
type work struct {
	worker, retries int
	added           string // The priority with which the key was added meanwhile, if it was.
}

func newQueue() queue {
	return queue{waiting: map[string]string{}, processing: map[string]*work{}, delayed: map[string]time.Time{}}
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
func (q *queue) addAfter(key string, at time.Time) {
	if earlier, ok := q.delayed[key]; !ok || at.Before(earlier) {
		q.delayed[key] = at
	}
}

// elapsed yields the keys whose delay has elapsed, with the time of that.
func (q *queue) elapsed(now time.Time) iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		keys := slices.SortedFunc(maps.Keys(q.delayed), func(a, b string) int {
			return cmp.Or(q.delayed[a].Compare(q.delayed[b]), cmp.Compare(a, b))
		})
		for _, key := range keys {
			at := q.delayed[key]
			if at.After(now) {
				return
			}
			delete(q.delayed, key)
			if !yield(key, at) {
				return
			}
		}
	}
}

// get takes a key from those that wait, and returns its priority and whether it was known to wait.
func (q *queue) get(key string, retries int) (w *work, priority string, known bool) {
	priority, known = q.waiting[key]
	delete(q.waiting, key)
	w = &work{worker: q.freeWorker(), retries: retries}
	q.processing[key] = w
	return w, cmp.Or(priority, "high"), known
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
