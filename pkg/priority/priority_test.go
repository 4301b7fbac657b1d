// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func newTestQueue(t *testing.T) *Queue[string] {
	queue := NewQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second))
	t.Cleanup(queue.ShutDown)
	return queue
}

// drain hands out all items.
func drain(queue *Queue[string]) (items []string) {
	for queue.Len() > 0 {
		item, _ := queue.Get()
		queue.Done(item)
		items = append(items, item)
	}
	return items
}

func TestNewsGoesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*Queue[string])
		want []string
	}{
		"what can wait is handed out in its order": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
		}, []string{"a", "b"}},
		"news is handed out in its order, and first": {func(q *Queue[string]) {
			q.AddLater("a")
			q.Add("b")
			q.Add("c")
		}, []string{"b", "c", "a"}},
		"an item stands there once, however often it is added": {func(q *Queue[string]) {
			q.Add("a")
			q.Add("b")
			q.AddLater("a")
			q.Add("a")
		}, []string{"a", "b"}},
		"news about an item that waits ends its waiting": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.Add("b")
		}, []string{"b", "a"}},
		"an item whose waiting was ended is not handed out at its old place as well": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.Add("a")
		}, []string{"a", "b"}},
		"an item that waits keeps its place when it is added again": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.AddLater("a")
		}, []string{"a", "b"}},
		"an item that waited once can wait again": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.Add("b")
			item, _ := q.Get()
			q.Done(item)
			q.AddLater("b")
		}, []string{"a", "b"}},
		"news about an item that is being worked on goes first": {func(q *Queue[string]) {
			q.Add("a")
			item, _ := q.Get()
			q.AddLater("b")
			q.Add("a")
			q.AddLater("a")
			q.Done(item)
		}, []string{"a", "b"}},
		"what can wait does so although it is being worked on": {func(q *Queue[string]) {
			q.Add("a")
			item, _ := q.Get()
			q.AddLater("b")
			q.AddLater("a")
			q.Done(item)
		}, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			queue := newTestQueue(t)
			test.add(queue)
			if got := drain(queue); !slices.Equal(got, test.want) {
				t.Errorf("handed out %v, want %v", got, test.want)
			}
		})
	}
}

func TestARetryIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		queue := newTestQueue(t)
		queue.AddLater("a")
		queue.AddRateLimited("b")
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := drain(queue), []string{"b", "a"}; !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v", got, want)
		}
	})
}

func TestWhatCanWaitGetsItsTurn(t *testing.T) {
	queue := newTestQueue(t)
	queue.AddLater("patient")
	queue.Add("busy")
	for range 2 * share {
		item, _ := queue.Get()
		queue.Add(item) // There is always news about it.
		queue.Done(item)
		if item == "patient" {
			return
		}
	}
	t.Errorf("not handed out within %d turns", 2*share)
}

func TestNothingIsKeptOfWhatWasHandedOut(t *testing.T) {
	queue := newTestQueue(t)
	for range 100 {
		queue.AddLater("a")
		queue.Add("a")
		drain(queue)
	}
	if o := queue.order; len(o.expected)+len(o.waiting)+len(o.news)+len(o.later) > 0 {
		t.Errorf("left are %d expected, %d waiting, %d news and %d later", len(o.expected), len(o.waiting), len(o.news), len(o.later))
	}
}

func TestAtShutdownWhatIsThereIsHandedOutAndNothingElse(t *testing.T) {
	queue := newTestQueue(t)
	queue.AddLater("a")
	queue.Add("b")
	queue.ShutDown()
	queue.Add("c")
	queue.AddLater("d")
	if got, want := drain(queue), []string{"b", "a"}; !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
	if item, shutdown := queue.Get(); !shutdown {
		t.Errorf("handed out %q after the end", item)
	}
}

// Many add and many work at the same time: each item is worked on by one at a time, and again after it was last added.
func TestNothingIsLost(t *testing.T) {
	const items, times, hands = 20, 500, 4
	queue := NewQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Millisecond, time.Second))
	var added, seen [items]atomic.Int64
	var busy [items]atomic.Bool
	var adders, workers sync.WaitGroup
	for hand := range hands {
		adders.Go(func() {
			for i := range times {
				item := i % items
				added[item].Add(1)
				if (i+hand)%3 == 0 {
					queue.Add(item)
				} else {
					queue.AddLater(item)
				}
			}
		})
		workers.Go(func() {
			for {
				item, shutdown := queue.Get()
				if shutdown {
					return
				}
				if busy[item].Swap(true) {
					t.Errorf("%d is worked on twice at the same time", item)
				}
				seen[item].Store(added[item].Load())
				busy[item].Store(false)
				queue.Done(item)
			}
		})
	}
	adders.Wait()
	queue.ShutDownWithDrain()
	workers.Wait()
	for item := range items {
		if got, want := seen[item].Load(), added[item].Load(); got != want {
			t.Errorf("%d was added %d times, and last handed out after %d", item, want, got)
		}
	}
	if o := queue.order; len(o.expected)+len(o.waiting)+len(o.news)+len(o.later) > 0 {
		t.Errorf("left are %d expected, %d waiting, %d news and %d later", len(o.expected), len(o.waiting), len(o.news), len(o.later))
	}
}
