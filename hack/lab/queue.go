// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"slices"
	"time"
)

// queue is a model of an instance's workqueue. It follows from the log which keys wait, are processed, or are delayed.
type queue struct {
	waiting    map[string]string // priority by key
	processing map[string]*work
	delayed    []delayed
}

// delayed is a key that is delayed. With high priority it is so once.
type delayed struct {
	key, priority string
	until         time.Time
}

// work is the processing of a key.
type work struct {
	worker, retries int
	added           string // The priority with which the key was added meanwhile, if it was.
}

func newQueue() queue {
	return queue{waiting: map[string]string{}, processing: map[string]*work{}}
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

// addAfter adds a key at a time. Of several times with high priority the earliest counts.
func (q *queue) addAfter(key, priority string, at time.Time) {
	n := slices.IndexFunc(q.delayed, func(d delayed) bool { return d.key == key && d.priority == "high" })
	switch {
	case priority == "low" || n < 0:
		q.delayed = append(q.delayed, delayed{key, priority, at})
	case at.Before(q.delayed[n].until):
		q.delayed[n].until = at
	}
}

// elapsed removes and returns what is delayed until a time at most, and is about a key if it is not empty. The earliest comes first.
func (q *queue) elapsed(until time.Time, key string) (elapsed []delayed) {
	q.delayed = slices.DeleteFunc(q.delayed, func(d delayed) bool {
		isOver := !d.until.After(until) && (key == "" || d.key == key)
		if isOver {
			elapsed = append(elapsed, d)
		}
		return isOver
	})
	slices.SortStableFunc(elapsed, func(a, b delayed) int { return a.until.Compare(b.until) })
	return elapsed
}

// get takes a key from those that wait, and returns its priority and whether it was known to wait. If it was not, its next delay has elapsed.
func (q *queue) get(key string, retries int) (w *work, priority string, known bool) {
	priority, known = q.waiting[key]
	delete(q.waiting, key)
	if !known {
		priority = q.nextDelayed(key)
	}
	w = &work{worker: q.freeWorker(), retries: retries}
	q.processing[key] = w
	return w, priority, known
}

// nextDelayed removes the next delay of a key, and returns its priority: high if none is known.
func (q *queue) nextDelayed(key string) string {
	next := -1
	for n, d := range q.delayed {
		if d.key == key && (next < 0 || d.until.Before(q.delayed[next].until)) {
			next = n
		}
	}
	if next < 0 {
		return "high"
	}
	priority := q.delayed[next].priority
	q.delayed = slices.Delete(q.delayed, next, next+1)
	return priority
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
