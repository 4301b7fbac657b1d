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
	"k8s.io/component-base/metrics/testutil"
)

func newTestQueue(t *testing.T) *Queue[string] {
	backlog.Set(0)
	queue := NewQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second))
	t.Cleanup(queue.ShutDown)
	return queue
}

// take hands out the next item.
func take[T comparable](queue *Queue[T]) T {
	item, _ := queue.Get()
	return item
}

// drain hands out all items.
func drain(queue *Queue[string]) (items []string) {
	for queue.Len() > 0 {
		item := take(queue)
		items = append(items, item)
		queue.Done(item)
	}
	return items
}

func wantNothingLeft[T comparable](t *testing.T, queue *Queue[T]) {
	t.Helper()
	if len(queue.waiting)+len(queue.order)+len(queue.admitted) > 0 {
		t.Errorf("left are %d waiting, %d places and %d admitted", len(queue.waiting), len(queue.order), len(queue.admitted))
	}
	if got, err := testutil.GetGaugeMetricValue(backlog); err != nil || got != 0 {
		t.Errorf("the backlog's metric is %v, %v", got, err)
	}
}

func TestRetriesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewRateLimiter[int]()
		for i, want := range map[int]time.Duration{0: 5 * time.Millisecond, 1: 10 * time.Millisecond, 2: 20 * time.Millisecond, 30: 1000 * time.Second} {
			limiter.Forget(0)
			for range i {
				limiter.When(0)
			}
			if got := limiter.When(0); got != want {
				t.Errorf("retry %d of an item waits %s, want %s", i, got, want)
			}
		}
		limiter = NewRateLimiter[int]()
		for i := range 400 {
			got, want := limiter.When(i), 5*time.Millisecond
			if i >= 300 {
				want = max(want, time.Duration(i-299)*20*time.Millisecond)
			}
			if got != want {
				t.Fatalf("retry %d of all waits %s, want %s", i, got, want)
			}
		}
	})
}

func TestNewsGoesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*Queue[string])
		want []string
	}{
		"what can wait is handed out in its order": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.AddLater("c")
		}, []string{"a", "b", "c"}},
		"news goes before all but one of what can wait": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.Add("c")
			q.Add("d")
		}, []string{"a", "c", "d", "b"}},
		"what is urgent goes before all but one of what can wait, too": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.AddUrgent("c")
		}, []string{"a", "c", "b"}},
		"an item stands there once, however often it is added": {func(q *Queue[string]) {
			q.Add("a")
			q.Add("b")
			q.AddLater("c")
			q.Add("a")
			q.AddLater("c")
		}, []string{"a", "b", "c"}},
		"news about an item that waits ends its waiting": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.AddLater("c")
			q.Add("c")
		}, []string{"a", "c", "b"}},
		"an item that waits keeps its place when it is added again": {func(q *Queue[string]) {
			q.AddLater("a")
			q.AddLater("b")
			q.AddLater("c")
			q.AddLater("b")
		}, []string{"a", "b", "c"}},
		"an item that waited once can wait again": {func(q *Queue[string]) {
			q.AddLater("a")
			q.Done(take(q))
			q.AddLater("b")
			q.AddLater("a")
		}, []string{"b", "a"}},
		"news about an item that is being worked on is handed out after that": {func(q *Queue[string]) {
			q.Add("a")
			q.Get()
			q.Add("a")
			q.AddLater("b")
			q.AddLater("c")
			q.Done("a")
		}, []string{"b", "a", "c"}},
		"what can wait does so although it is being worked on": {func(q *Queue[string]) {
			q.Add("a")
			q.Get()
			q.AddLater("b")
			q.AddLater("a")
			q.Done("a")
		}, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			queue := newTestQueue(t)
			test.add(queue)
			if got := drain(queue); !slices.Equal(got, test.want) {
				t.Errorf("handed out %v, want %v", got, test.want)
			}
			wantNothingLeft(t, queue)
		})
	}
}

func TestARetryIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		queue := newTestQueue(t)
		queue.AddLater("a")
		queue.AddLater("b")
		queue.AddRateLimited("c")
		time.Sleep(time.Second) // The retry is due.
		synctest.Wait()
		if got, want := drain(queue), []string{"a", "c", "b"}; !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v", got, want)
		}
	})
}

func TestWhatCanWaitGetsItsTurn(t *testing.T) {
	queue := newTestQueue(t)
	queue.Add("busy")
	queue.AddLater("patient")
	for range 2 {
		item := take(queue)
		if item == "patient" {
			return
		}
		queue.Add(item) // There is always news about it.
		queue.Done(item)
	}
	t.Error("not handed out in the second turn")
}

func TestTheBacklogGivesWayToWhatIsUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		queue := newTestQueue(t)
		queue.SetLimit(4)
		for _, item := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			queue.AddLater(item)
		}
		for i, step := range []struct {
			do   func()
			want []string
		}{
			{func() {}, []string{"a", "b", "c", "d"}},
			{func() { queue.AddUrgent("j") }, []string{"j"}},
			{func() { queue.Done("j") }, nil},
			{func() { queue.Done("a") }, nil},
			{func() { queue.Done("b") }, nil}, // Half of four remain.
			{func() { queue.Done("c") }, []string{"e"}},
			{func() { time.Sleep(giveWayPeriod / 2) }, nil}, // The period goes on, and begins anew with the next.
			{func() { queue.AddUrgent("i") }, []string{"i"}},
			{func() { time.Sleep(giveWayPeriod * 3 / 4) }, nil}, // Past the end of the first, not of the second.
			{func() { queue.Done("d") }, []string{"f"}},
			{func() { time.Sleep(giveWayPeriod / 4) }, []string{"g", "h"}}, // The second's end, even if all that is worked on hangs.
		} {
			step.do()
			synctest.Wait()
			var got []string
			for queue.Len() > 0 {
				got = append(got, take(queue))
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("step %d handed out %v, want %v", i, got, step.want)
			}
		}
	})
}

func TestAHigherLimitLetsInWhatWaits(t *testing.T) {
	queue := newTestQueue(t)
	for _, item := range []string{"a", "b", "c"} {
		queue.AddLater(item)
	}
	if got, err := testutil.GetGaugeMetricValue(backlog); err != nil || got != 2 {
		t.Errorf("the backlog's metric is %v, %v, want 2", got, err)
	}
	queue.SetLimit(3)
	if got := queue.Len(); got != 3 {
		t.Errorf("%d are in the workqueue, want 3", got)
	}
}

func TestNothingIsKeptOfWhatWasHandedOut(t *testing.T) {
	queue := newTestQueue(t)
	queue.Add("busy")
	take(queue)
	queue.AddLater("patient")
	for range 100 {
		queue.AddLater("a")
		queue.Add("a")
		drain(queue)
	}
	queue.Done("busy")
	wantNothingLeft(t, queue)
}

func TestNothingIsHandedOutThatComesAfterTheShutdown(t *testing.T) {
	queue := newTestQueue(t)
	queue.Add("a")
	queue.ShutDown()
	queue.Add("b")
	queue.AddLater("c")
	if got, want := drain(queue), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
	if item, shutdown := queue.Get(); !shutdown {
		t.Errorf("handed out %q after the end", item)
	}
}

// Many add and many work at the same time: each item is worked on by one at a time, and again after it was last added.
func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, testNothingIsLost)
}

func testNothingIsLost(t *testing.T) {
	backlog.Set(0)
	const items, times, hands = 20, 500, 4
	queue := NewQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Millisecond, time.Second))
	queue.SetLimit(hands / 2)
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
	synctest.Wait() // All workers ask for more.
	queue.ShutDown()
	workers.Wait()
	for item := range items {
		if got, want := seen[item].Load(), added[item].Load(); got != want {
			t.Errorf("%d was added %d times, and last handed out after %d", item, want, got)
		}
	}
	wantNothingLeft(t, queue)
}
