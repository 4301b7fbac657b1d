// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package priorityqueue

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/testutil"

	"k8s.io/sample-controller/pkg/metrics"
)

// A Queue is used as client-go's.
var _ workqueue.TypedRateLimitingInterface[int] = &Queue[int]{}

func newTestQueue[T comparable](t *testing.T) *Queue[T] {
	queue := New[T]("")
	t.Cleanup(queue.ShutDown)
	return queue
}

// get returns the next item, which is being processed then.
func get[T comparable](queue *Queue[T]) T {
	item, _ := queue.Get()
	return item
}

// drain processes all items that are queued, and returns them.
func drain[T comparable](queue *Queue[T]) (items []T) {
	for queue.Len() > 0 {
		item := get(queue)
		items = append(items, item)
		queue.Done(item)
	}
	return items
}

func verifyEmpty[T comparable](t *testing.T, queue *Queue[T]) {
	t.Helper()
	marked := 0
	count := func(any, any) bool {
		marked++
		return true
	}
	queue.fifos.high.Range(count)
	if queue.ShuttingDown() {
		marked = 0 // What is added then is not pushed.
	}
	queue.fifos.processedLow.Range(count)
	if f := queue.fifos; f.highItems.Len()+f.lowItems.Len()+len(f.low)+marked > 0 {
		t.Errorf("left are %d items of high and %d of low priority, %d elements, and %d are being added or processed",
			f.highItems.Len(), f.lowItems.Len(), len(f.low), marked)
	}
}

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*Queue[string])
		want []string
	}{
		"high is FIFO": {func(q *Queue[string]) {
			q.Add("a")
			q.Add("b")
			q.Add("c")
		}, []string{"a", "b", "c"}},
		"low is FIFO": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			q.AddLowPriority("b")
			q.AddLowPriority("c")
		}, []string{"a", "b", "c"}},
		"high before low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			q.AddLowPriority("b")
			q.Add("c")
			q.Add("d")
		}, []string{"c", "d", "a", "b"}},
		"once": {func(q *Queue[string]) {
			q.Add("a")
			q.AddLowPriority("b")
			q.Add("a")
			q.AddLowPriority("b")
		}, []string{"a", "b"}},
		"low moves up when added with high": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			q.AddLowPriority("b")
			q.Add("c")
			q.Add("b")
		}, []string{"c", "b", "a"}},
		"low keeps its place when added with low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			q.AddLowPriority("b")
			q.AddLowPriority("c")
			q.AddLowPriority("b")
		}, []string{"a", "b", "c"}},
		"high stays high when added with low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			q.Add("b")
			q.AddLowPriority("b")
		}, []string{"b", "a"}},
		"low again once processed": {func(q *Queue[string]) {
			q.Add("a")
			q.Done(get(q))
			q.AddLowPriority("a")
			q.Add("b")
		}, []string{"b", "a"}},
		"high while processed": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			get(q)
			q.AddLowPriority("b")
			q.Add("a")
			q.Done("a")
		}, []string{"a", "b"}},
		"low while processed": {func(q *Queue[string]) {
			q.Add("a")
			get(q)
			q.AddLowPriority("b")
			q.AddLowPriority("a")
			q.Done("a")
		}, []string{"b", "a"}},
		"high and low while processed": {func(q *Queue[string]) {
			q.Add("a")
			get(q)
			q.AddLowPriority("b")
			q.Add("a")
			q.AddLowPriority("a")
			q.Done("a")
		}, []string{"a", "b"}},
		"nothing after shutdown": {func(q *Queue[string]) {
			q.Add("a")
			q.ShutDown()
			q.Add("b")
			q.AddLowPriority("c")
		}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			queue := newTestQueue[string](t)
			test.add(queue)
			if got := drain(queue); !slices.Equal(got, test.want) {
				t.Errorf("items = %q, want %q", got, test.want)
			}
			verifyEmpty(t, queue)
		})
	}
}

// What a sync adds for its own item keeps the item's priority, and what an event handler delays has high priority.
func TestDelayedPriority(t *testing.T) {
	// process hands out an item, adds it as its sync does, and ends its processing.
	process := func(q *Queue[string], add func(string)) {
		item := get(q)
		add(item)
		q.Done(item)
	}
	soon := func(q *Queue[string]) func(string) {
		return func(item string) { q.AddAfter(item, 100*time.Millisecond) }
	}
	retrySoon := func(q *Queue[string]) func(string) {
		return func(item string) { q.RetryAfter(item, 100*time.Millisecond) }
	}
	wait := func() {
		time.Sleep(time.Second) // By the fake clock of the bubble.
		synctest.Wait()
	}
	const high, low = "a, b", "b, a" // b is added with high priority when a has been queued.
	for name, test := range map[string]struct {
		add  func(*Queue[string])
		want string
	}{
		"retry of high": {func(q *Queue[string]) {
			q.Add("a")
			process(q, q.AddRateLimited)
		}, high},
		"retry of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, q.AddRateLimited)
		}, low},
		"second retry of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, q.AddRateLimited)
			wait()
			process(q, q.AddRateLimited)
		}, low},
		"retry of low that is changed before it is queued": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, q.AddRateLimited)
			q.Add("a")
			process(q, q.AddRateLimited)
		}, high},
		"retry of low that is changed while it is queued": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, q.AddRateLimited)
			wait()
			q.Add("a")
		}, high},
		"retry of low that is changed while it is processed": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, func(item string) {
				q.AddRateLimited(item)
				q.Add(item)
			})
		}, high},
		"retry of high that is resynced": {func(q *Queue[string]) {
			q.Add("a")
			process(q, q.AddRateLimited)
			q.AddLowPriority("a")
		}, high},
		"delayed by the sync of high": {func(q *Queue[string]) {
			q.Add("a")
			process(q, retrySoon(q))
		}, high},
		"delayed by the sync of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, retrySoon(q))
		}, low},
		"delayed by a handler during the sync of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, soon(q))
		}, high},
		"not delayed by the sync of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, func(item string) { q.RetryAfter(item, 0) })
		}, low},
		"delayed by a handler": {func(q *Queue[string]) { soon(q)("a") }, high},
		"delayed by a handler while low waits": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			soon(q)("a")
		}, high},
		"delayed by a handler after the sync of low": {func(q *Queue[string]) {
			q.AddLowPriority("a")
			process(q, func(string) {})
			soon(q)("a")
		}, high},
		"delayed by a handler before the sync of low fails": {func(q *Queue[string]) {
			soon(q)("a")
			q.AddLowPriority("a")
			process(q, q.AddRateLimited)
		}, high},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
				queue := newTestQueue[string](t)
				test.add(queue)
				wait()
				queue.Add("b")
				if got := strings.Join(drain(queue), ", "); got != test.want {
					t.Errorf("items = %q, want %q", got, test.want)
				}
				verifyEmpty(t, queue)
			})
		})
	}
}

// The retries of an initial list, all of whose syncs fail, do not delay an edit.
func TestRetriesOfInitialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue[int](t)
		for item := range 1000 {
			queue.AddLowPriority(item)
		}
		for range 5 {
			for queue.Len() > 0 {
				item := get(queue)
				queue.AddRateLimited(item)
				queue.Done(item)
			}
			time.Sleep(25 * time.Second) // By the fake clock of the bubble.
			synctest.Wait()
		}
		queue.Add(-1)
		if waiting, got := queue.Len(), get(queue); waiting != 1001 || got != -1 {
			t.Errorf("of %d items %d was handed out, want the edit of 1001", waiting, got)
		}
	})
}

func TestDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "depth"
		queue := New[string](name)
		defer queue.ShutDown()
		verify := func(when string, high, low float64) {
			t.Helper()
			for priority, want := range map[string]float64{"high": high, "low": low} {
				got, err := testutil.GetGaugeMetricValue(metrics.QueueDepth.WithLabelValues(name, priority))
				if err != nil || got != want {
					t.Errorf("%s: %v items of %s priority (%v), want %v", when, got, priority, err, want)
				}
			}
		}
		queue.AddLowPriority("a")
		queue.AddLowPriority("b")
		queue.Add("c")
		verify("added", 1, 2)
		queue.Add("b")
		verify("moved up", 2, 1)
		queue.AddRateLimited("d")
		verify("delayed", 2, 1)
		get(queue)
		get(queue)
		verify("handed out high", 0, 1)
		get(queue)
		verify("handed out low", 0, 0)
		queue.AddLowPriority("a")
		verify("added while processed", 0, 0)
		queue.Done("a")
		verify("processed", 0, 1)
		time.Sleep(5 * time.Millisecond) // By the fake clock of the bubble.
		synctest.Wait()
		verify("delay is over", 1, 1)
	})
}

// An item of low priority waits for maxLowWait behind items of high priority that never cease, and for two syncs for
// each item of low priority before it.
func TestLowPriorityDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncDuration, low = 10 * time.Millisecond, 5
		queue, start := New[int](""), time.Now()
		defer queue.ShutDown()
		queue.Add(-1)
		queue.Add(-2)
		for item := range low {
			queue.AddLowPriority(item)
		}
		for item := 0; item < low; {
			got, _ := queue.Get()
			switch waited := time.Since(start); {
			case got < 0:
				queue.Add(got)
				if limit := 30*time.Second + time.Duration(2*item+1)*syncDuration; waited > limit {
					t.Fatalf("item %d waits for %s, want at most %s", item, waited, limit)
				}
			case waited < 30*time.Second:
				t.Fatalf("item %d was handed out after %s, want not before 30s", got, waited)
			default:
				item++
			}
			time.Sleep(syncDuration) // By the fake clock of the bubble.
			queue.Done(got)
		}
	})
}

// However many items of low priority are overdue, one of high priority waits for at most one more than there are of high priority
// before it.
func TestHighPriorityDoesNotWaitForOverdueItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue[int](t)
		for item := range 10_000 {
			queue.AddLowPriority(item)
		}
		time.Sleep(time.Hour) // By the fake clock of the bubble.
		get := func(n int) (items []int) {
			for range n {
				items = append(items, get(queue))
			}
			return items
		}
		queue.Add(-1)
		queue.Add(-2)
		queue.Add(-3)
		if got, want := get(8), []int{0, -1, 1, -2, 2, -3, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("items = %d, want %d", got, want)
		}
		queue.Add(-4)
		if got, want := get(3), []int{-4, 5, 6}; !slices.Equal(got, want) {
			t.Errorf("items after those of low priority = %d, want %d", got, want)
		}
	})
}

// What the failures of other items have cost the bucket delays a retry by at most 30 s, and their own delays still limit them.
func TestBucketInDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items, healthy = 3000, -1
		queue := New[int]("")
		var failures atomic.Int64
		healthyAfter := make(chan time.Time, 1)
		var worker sync.WaitGroup
		worker.Go(func() {
			for {
				item, shutdown := queue.Get()
				switch {
				case shutdown:
					return
				case item == healthy:
					healthyAfter <- time.Now()
				default:
					failures.Add(1)
					queue.AddRateLimited(item)
				}
				queue.Done(item)
			}
		})
		for range 10 { // As resyncs do, each of which costs the bucket a token.
			for item := range items {
				queue.AddLowPriority(item)
			}
			time.Sleep(30 * time.Second) // By the fake clock of the bubble.
		}
		start := time.Now()
		queue.AddRateLimited(healthy)
		if got := (<-healthyAfter).Sub(start); got > 30*time.Second {
			t.Errorf("the first retry of an item comes after %s, want at most 30s", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		before := failures.Load()
		time.Sleep(1000 * time.Second)
		synctest.Wait()
		if got := failures.Load() - before; got > items {
			t.Errorf("%d retries of %d items in 1000 s, want at most one each", got, items)
		}
		queue.ShutDown()
		worker.Wait()
	})
}

func TestRetryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: it advances when all wait.
		queue := New[int]("")
		defer queue.ShutDown()
		retry := func() time.Duration {
			start := time.Now()
			queue.AddRateLimited(0)
			queue.Get()
			queue.Done(0)
			return time.Since(start)
		}
		for requeues := range 30 {
			if got, want := retry(), min(5*time.Millisecond<<requeues, 1000*time.Second); got != want {
				t.Errorf("delay after %d requeues = %s, want %s", requeues, got, want)
			}
		}
		queue.Forget(0)
		if got, want := retry(), 5*time.Millisecond; got != want {
			t.Errorf("delay after Forget = %s, want %s", got, want)
		}
	})
}

func TestRetriesPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, start := New[int](""), time.Now()
		defer queue.ShutDown()
		for item := range 400 {
			queue.AddRateLimited(item)
		}
		for _, want := range []struct {
			after time.Duration
			items int
		}{{4 * time.Millisecond, 0}, {5 * time.Millisecond, 300}, {time.Second, 350}, {2*time.Second - time.Millisecond, 399}, {2 * time.Second, 400}} {
			time.Sleep(want.after - time.Since(start)) // By the fake clock of the bubble.
			synctest.Wait()
			if got := queue.Len(); got != want.items {
				t.Errorf("%d items after %s, want %d", got, want.after, want.items)
			}
		}
	})
}

func TestNoGrowth(t *testing.T) {
	queue := newTestQueue[int](t)
	for i := range 100_000 {
		item := i % 10
		queue.AddLowPriority(item)
		if i%2 == 0 {
			queue.Add(item)
		}
		get(queue)
		if i%3 == 0 {
			queue.AddLowPriority(item)
		}
		queue.Done(item)
		drain(queue)
	}
	verifyEmpty(t, queue)
}

// Each item is processed by one worker at a time, and once more after it was last added.
func TestConcurrentAdds(t *testing.T) { synctest.Test(t, testConcurrentAdds) }

func testConcurrentAdds(t *testing.T) {
	const items, times, workers = 20, 1000, 4
	queue := newTestQueue[int](t)
	var added, processed [items]atomic.Int64
	var processing [items]atomic.Bool
	var adding, working sync.WaitGroup
	for worker := range workers {
		adding.Go(func() {
			for i := range times {
				item := i % items
				added[item].Add(1)
				if (i+worker)%3 == 0 {
					queue.Add(item)
				} else {
					queue.AddLowPriority(item)
				}
			}
		})
		working.Go(func() {
			for {
				item, shutdown := queue.Get()
				if shutdown {
					return
				}
				if processing[item].Swap(true) {
					t.Errorf("item %d is processed by two workers", item)
				}
				processed[item].Store(added[item].Load())
				processing[item].Store(false)
				queue.Done(item)
			}
		})
	}
	adding.Wait()
	synctest.Wait() // All workers wait for items.
	queue.ShutDown()
	working.Wait()
	for item := range items {
		if got, want := processed[item].Load(), added[item].Load(); got != want {
			t.Errorf("item %d was added %d times and last processed after %d", item, want, got)
		}
	}
	verifyEmpty(t, queue)
}
