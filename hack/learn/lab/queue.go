// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// queue is the model of an instance's workqueue. It follows from the log which keys wait, are processed, or are delayed. The page has no other
// one: it does what the steps say.
type queue struct {
	waiting    map[string]string // priority by key
	processing map[string]*work
	delayed    map[delayed]time.Time // until when
}

// delayed is a key that is added with a priority once its delay has elapsed.
type delayed struct{ key, priority string }

// work is the processing of a key.
type work struct {
	worker, retries int
	priority        string // The priority with which the key was taken.
	added           string // The priority with which the key was added meanwhile, if it was.
}

func newQueue() queue {
	return queue{waiting: map[string]string{}, processing: map[string]*work{}, delayed: map[delayed]time.Time{}}
}

// add adds a key, and returns what becomes of it if it is already there.
func (q *queue) add(key, priority string) (merged string) {
	if work := q.processing[key]; work != nil {
		if work.added != "high" {
			work.added = priority
		}
		return "processing"
	}
	waits, ok := q.waiting[key]
	switch {
	case !ok:
		q.waiting[key] = priority
		return ""
	case waits == "low" && priority == "high":
		q.waiting[key] = priority
		return "raised"
	}
	return "waiting"
}

// retryAfter adds a key at a time, as addAfter does, with the priority with which it is being processed, which it returns too.
func (q *queue) retryAfter(key string, at time.Time) (priority, merged string) {
	priority = "high"
	if work := q.processing[key]; work != nil {
		priority = work.priority
	}
	return priority, q.addAfter(key, priority, at)
}

// addAfter adds a key with a priority at a time. Of several times with one priority the earliest counts: it says so if that is another one.
func (q *queue) addAfter(key, priority string, at time.Time) (merged string) {
	d := delayed{key, priority}
	if until, ok := q.delayed[d]; ok && !at.Before(until) {
		return "delayed"
	}
	q.delayed[d] = at
	return ""
}

// elapsed returns the keys that are delayed until a time at most. The earliest comes first.
func (q *queue) elapsed(until time.Time) []delayed {
	all := slices.SortedFunc(maps.Keys(q.delayed), func(a, b delayed) int {
		return cmp.Or(q.delayed[a].Compare(q.delayed[b]), cmp.Compare(a.key, b.key), cmp.Compare(a.priority, b.priority))
	})
	return slices.DeleteFunc(all, func(d delayed) bool { return q.delayed[d].After(until) })
}

// get takes a key from those that wait, and returns its priority and whether it was known to wait. If it was not, its delay has elapsed.
func (q *queue) get(key string, retries int) (w *work, priority string, known bool) {
	priority, known = q.waiting[key]
	delete(q.waiting, key)
	if !known {
		_, isHigh := q.delayed[delayed{key, "high"}]
		_, isLow := q.delayed[delayed{key, "low"}]
		priority = "high"
		if isLow && !isHigh {
			priority = "low"
		}
		delete(q.delayed, delayed{key, priority})
	}
	w = &work{worker: q.freeWorker(), retries: retries, priority: priority}
	q.processing[key] = w
	return w, priority, known
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
