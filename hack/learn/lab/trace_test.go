// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// start is the time of the first record of a test.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tracing feeds a tracer with records that are milliseconds after the start.
type tracing struct {
	*testing.T
	tracer *tracer
	steps  []Step
}

func newTracing(t *testing.T) *tracing {
	return &tracing{T: t, tracer: newTracer(fstest.MapFS{})}
}

func (t *tracing) at(milliseconds float64, trace func(*tracer, *pod)) {
	at := start.Add(time.Duration(milliseconds * float64(time.Millisecond)))
	t.tracer.advance(at)
	trace(t.tracer, t.tracer.pod("a"))
	t.steps = append(t.steps, t.tracer.take()...)
}

// log traces a log line with names and values.
func (t *tracing) log(milliseconds float64, message string, namesAndValues ...any) {
	t.Helper()
	fields := map[string]any{"caller": "x/controller.go:1", "msg": message}
	for i := 0; i < len(namesAndValues); i += 2 {
		fields[namesAndValues[i].(string)] = namesAndValues[i+1]
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := parseLine(string(text))
	if !ok {
		t.Fatalf("%s is not a line of the log", text)
	}
	t.at(milliseconds, func(tr *tracer, p *pod) { tr.traceLine(p, l) })
}

func (t *tracing) event(milliseconds float64, lane, eventType, resourceVersion string) {
	d := described{object: "default/a", resourceVersion: resourceVersion, owner: "default/a"}
	t.at(milliseconds, func(tr *tracer, p *pod) { tr.watchEvent(p, lane, event{d, eventType}) })
}

// response traces the request of a write and the response to it.
func (t *tracing) response(milliseconds float64, verb, resource, resourceVersion string, code int) {
	lane, _, _ := strings.Cut(resource, "/")
	s := Step{Verb: verb, Resource: resource, Lane: lane, Object: "default/a"}
	t.at(milliseconds, func(tr *tracer, p *pod) { s.Request = tr.request(p, s, nil).Seq })
	written := newObject("apps/v1", "Deployment", "a", nil, nil)
	written.SetResourceVersion(resourceVersion)
	var err error
	if code >= 300 {
		err = apiserver.StatusError(int32(code), "injected")
	}
	t.at(milliseconds, func(tr *tracer, p *pod) { tr.response(p, s, written, err) })
}

// want fails unless the kinds of the steps since the last call are these, each with details after a colon.
func (t *tracing) want(want ...string) {
	t.Helper()
	var got []string
	for _, s := range t.steps {
		line := s.Kind
		for _, detail := range []string{s.EventType, s.Result, s.Priority, s.Merged} {
			if detail != "" {
				line += " " + detail
			}
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got steps\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	t.steps = nil
}

func (t *tracing) find(kind string) Step {
	t.Helper()
	i := slices.IndexFunc(t.steps, func(s Step) bool { return s.Kind == kind })
	if i < 0 {
		t.Fatalf("there is no step %s in %v", kind, t.steps)
	}
	return t.steps[i]
}

func TestCreation(t *testing.T) {
	tr := newTracing(t)
	tr.event(0, foos, "ADDED", "10")
	tr.want("watchEvent ADDED", "fifoPush Added")
	tr.log(1, "Adding Foo", "foo", map[string]string{"namespace": "default", "name": "a"}, "resourceVersion", "10", "isInInitialList", false)
	tr.want("fifoPop Added", "indexerSet Added", "handler add")
	tr.log(1, "Enqueuing Foo", "foo", "default/a", "reason", "added", "priority", "high")
	tr.want("queueAdd high")
	tr.log(2, "Started syncing", "foo", "default/a", "retries", 0)
	tr.want("queueGet high", "syncStart")
	tr.log(2, "Deployment is not in the cache", "foo", "default/a", "deployment", map[string]string{"namespace": "default", "name": "a"})
	tr.want("sync missing")
	tr.response(3, "create", deployments, "11", 201)
	written := tr.find("response")
	if request := tr.find("request").Seq; written.Request != request {
		t.Errorf("the response is to request %d, want %d", written.Request, request)
	}
	tr.want("request", "response")
	tr.event(4, deployments, "ADDED", "11")
	if s := tr.find("watchEvent"); s.Object != written.Object || s.ResourceVersion != written.ResourceVersion {
		t.Errorf("the event %+v is not the echo of %+v", s, written)
	}
	tr.want("watchEvent ADDED", "fifoPush Added")
	tr.log(5, "Adding Deployment", "deployment", map[string]string{"namespace": "default", "name": "a"}, "resourceVersion", "11")
	if s := tr.find("indexerSet"); s.Object != written.Object || s.ResourceVersion != written.ResourceVersion {
		t.Errorf("the change of the Indexer %+v is not the echo of %+v", s, written)
	}
	if key := tr.find("handler").Key; key != "default/a" {
		t.Errorf("the handler is for key %q", key)
	}
	tr.want("fifoPop Added", "indexerSet Added", "handler add")
	tr.log(5, "Enqueuing Foo", "foo", "default/a", "reason", "controller of a", "priority", "high")
	if lane := tr.find("queueAdd").Lane; lane != deployments {
		t.Errorf("the key was added by the handler of %q", lane)
	}
	tr.want("queueAdd high processing")
	tr.log(6, "Finished syncing", "foo", "default/a", "result", "success", "duration", "4ms", "err", nil)
	if end := tr.find("syncEnd"); end.Duration != 0.004 || end.Worker != 1 {
		t.Errorf("the sync took %v s in worker %d", end.Duration, end.Worker)
	}
	tr.want("queueForget", "syncEnd success", "queueDone high processing")
	tr.log(7, "Started syncing", "foo", "default/a", "retries", 0)
	tr.want("queueGet high", "syncStart")
}

// A key that is resynced while it is processed keeps its low priority, unless it changes as well.
func TestPriorityWhileProcessed(t *testing.T) {
	for added, want := range map[string]string{"low": "low", "low high": "high", "high low": "high"} {
		tr := newTracing(t)
		tr.log(1, "Started syncing", "foo", "default/a", "retries", 0)
		for _, priority := range strings.Fields(added) {
			tr.log(2, "Enqueuing Foo", "foo", "default/a", "reason", "a reason", "priority", priority)
		}
		tr.log(3, "Finished syncing", "foo", "default/a", "result", "success", "duration", "4ms", "err", nil)
		if got := tr.find("queueDone").Priority; got != want {
			t.Errorf("added with %s: Done queues the key with priority %q, want %q", added, got, want)
		}
	}
}

func TestRetries(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Started syncing", "foo", "default/a", "retries", 4)
	tr.want("queueReady high", "queueGet high", "syncStart")
	tr.log(1, "Finished syncing", "foo", "default/a", "result", "error", "duration", "1ms", "err", "broken")
	if s := tr.find("queueAddRateLimited"); s.Retries != 5 || s.Delay != 0.08 {
		t.Errorf("queued with %d retries after %v s, want 5 and 0.08", s.Retries, s.Delay)
	}
	tr.want("queueAddRateLimited high", "syncEnd error", "queueDone")
	tr.at(80, func(*tracer, *pod) {})
	tr.want()
	tr.at(182, func(*tracer, *pod) {})
	if at := tr.find("queueReady").Time; !at.Equal(start.Add(81 * time.Millisecond)) {
		t.Errorf("the delay elapsed at %s", at)
	}
	tr.want("queueReady high")
	tr.log(183, "Started syncing", "foo", "default/a", "retries", 5)
	tr.log(184, "Finished syncing", "foo", "default/a", "result", "success", "duration", "1ms", "err", nil)
	if s := tr.find("queueForget"); s.Retries != 5 {
		t.Errorf("Forget cleared %d retries, want 5", s.Retries)
	}
	tr.want("queueGet high", "syncStart", "queueForget", "syncEnd success", "queueDone")
}

// A retry keeps its priority, and what a handler delays has high priority.
func TestDelayedPriority(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Enqueuing Foo", "foo", "default/a", "reason", "rollout of a", "after", "500ms")
	tr.log(1, "Enqueuing Foo", "foo", "default/a", "reason", "initial list", "priority", "low")
	tr.log(2, "Started syncing", "foo", "default/a", "retries", 0)
	tr.want("queueAddAfter high", "queueAdd low", "queueGet low", "syncStart")
	tr.log(3, "Finished syncing", "foo", "default/a", "result", "error", "duration", "1ms", "err", "broken")
	tr.want("queueAddRateLimited low", "syncEnd error", "queueDone")
	tr.at(200, func(*tracer, *pod) {})
	tr.want("queueReady low")
	tr.at(700, func(*tracer, *pod) {})
	tr.want("queueReady high raised")
	tr.log(701, "Started syncing", "foo", "default/a", "retries", 1)
	tr.log(702, "Finished syncing", "foo", "default/a", "result", "error", "duration", "1ms", "err", "broken")
	tr.want("queueGet high", "syncStart", "queueAddRateLimited high", "syncEnd error", "queueDone")
}

func TestQueueDeduplicates(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Enqueuing Foo", "foo", "default/a", "reason", "resync", "priority", "low")
	tr.log(1, "Enqueuing Foo", "foo", "default/a", "reason", "changed", "priority", "high")
	tr.log(2, "Enqueuing Foo", "foo", "default/b", "reason", "resync", "priority", "low")
	tr.want("queueAdd low", "queueAdd high raised", "queueAdd low")
	tr.log(3, "Started syncing", "foo", "default/a", "retries", 0)
	tr.log(3, "Started syncing", "foo", "default/b", "retries", 0)
	if first, second := tr.find("queueGet").Worker, tr.steps[2].Worker; first != 1 || second != 2 {
		t.Errorf("the keys are processed by workers %d and %d", first, second)
	}
	tr.want("queueGet high", "syncStart", "queueGet low", "syncStart")
}

func TestTombstone(t *testing.T) {
	tr := newTracing(t)
	list := func(milliseconds float64, resourceVersion string, objects ...string) {
		tr.at(milliseconds, func(tr *tracer, p *pod) {
			p.lanes[deployments].listing, p.lanes[deployments].listed = true, map[string]bool{}
			for _, object := range objects {
				tr.watchEvent(p, deployments, event{described{object: object, resourceVersion: resourceVersion}, "ADDED"})
			}
			tr.watchEvent(p, deployments, event{described{resourceVersion: resourceVersion, initialEventsEnd: true}, "BOOKMARK"})
		})
	}
	list(0, "5", "default/a", "default/b")
	if s := tr.find("listed"); s.Count != 2 || s.ResourceVersion != "5" {
		t.Errorf("listed %d objects at resourceVersion %s", s.Count, s.ResourceVersion)
	}
	tr.want("watchEvent ADDED list", "watchEvent ADDED list",
		"listed", "fifoPush Replaced", "fifoPop Replaced", "indexerReplaced Replaced")
	list(10, "9", "default/b")
	tr.steps = nil
	tr.log(11, "Deleting Deployment", "deployment", "default/a", "isTombstone", true)
	tr.want("handler tombstone")
	tr.event(12, deployments, "DELETED", "11")
	tr.steps = nil
	tr.log(13, "Deleting Deployment", "deployment", "default/a", "isTombstone", false)
	tr.want("fifoPop Deleted", "indexerSet Deleted", "handler delete")
}

func TestDeletedFoo(t *testing.T) {
	tr := newTracing(t)
	for range 2 {
		tr.log(0, "Adding Foo", "foo", "default/a", "resourceVersion", "9", "isInInitialList", false)
		tr.event(1, foos, "DELETED", "10")
		tr.steps = nil
		tr.log(2, "Enqueuing Foo", "foo", "default/a", "reason", "deleted", "priority", "high")
		tr.want("fifoPop Deleted", "indexerSet Deleted", "handler delete", "queueAdd high")
		tr.log(3, "Started syncing", "foo", "default/a", "retries", 0)
		tr.log(3, "Finished syncing", "foo", "default/a", "result", "success", "duration", "1ms", "err", nil)
	}
}

func TestTombstoneOfFoo(t *testing.T) {
	tr := newTracing(t)
	tr.at(0, func(tr *tracer, p *pod) { p.lanes[foos].missed["default/a"] = true })
	tr.log(1, "Enqueuing Foo", "foo", "default/a", "reason", "deleted", "priority", "high")
	if key := tr.find("handler").Object; key != "default/a" {
		t.Errorf("the handler is for Foo %q", key)
	}
	tr.want("handler tombstone", "queueAdd high")
}

func TestNotEnqueued(t *testing.T) {
	for lane, fields := range map[string][]any{
		foos:        {"foo", map[string]string{"namespace": "default", "name": "a"}, "reason", "only status or metadata changed"},
		deployments: {"object", map[string]string{"namespace": "default", "name": "a"}, "reason", "no Foo controls it"},
	} {
		tr := newTracing(t)
		tr.log(0, "Foo not enqueued", fields...)
		if s := tr.find("notEnqueued"); s.Lane != lane || s.Object != "default/a" || s.Why != fields[3] {
			t.Errorf("got %+v, want the handler of %s", s, lane)
		}
	}
}

func TestRequeues(t *testing.T) {
	for _, test := range []struct {
		result, err string
		retries     int
		want        string
		delay       float64
	}{
		{"stale", "stale", 6, "queueAddAfter", 1},
		{"not_leading", "broken", 6, "queueAddAfter", 1},
		{"paused", "broken", 6, "queueAddAfter", 1},
		{"conflict", "broken", 6, "queueAddRateLimited", 0.32},
		{"error", "broken", 0, "queueAddRateLimited", 0.005},
		{"error", "broken", 100, "queueAddRateLimited", 1000},
	} {
		tr := newTracing(t)
		tr.log(0, "Started syncing", "foo", "default/a", "retries", test.retries)
		tr.steps = nil
		tr.log(1, "Finished syncing", "foo", "default/a", "result", test.result, "duration", "1ms", "err", test.err)
		if s := tr.find(test.want); s.Delay != test.delay || s.Why != test.result {
			t.Errorf("%s: queued after %v s because of %q, want %v s", test.result, s.Delay, s.Why, test.delay)
		}
		tr.want(test.want+" high", "syncEnd "+test.result, "queueDone")
	}
}

// A worker adds the key of a Foo that is stalled with a delay, of which client-go keeps the earliest.
func TestStalled(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Started syncing", "foo", "default/a", "retries", 2)
	tr.steps = nil
	tr.log(1, "Enqueuing Foo", "foo", "default/a", "reason", "DeploymentRejected", "after", "1s")
	if s := tr.find("queueAddAfter"); s.Delay != 1 || s.Lane != "" || s.Why != "DeploymentRejected" {
		t.Errorf("queued by the handler of %q after %v s because of %q", s.Lane, s.Delay, s.Why)
	}
	tr.log(2, "Finished syncing", "foo", "default/a", "result", "stalled", "duration", "1ms", "err", "denied by a webhook")
	if s := tr.find("queueForget"); s.Retries != 2 {
		t.Errorf("Forget cleared %d retries, want 2", s.Retries)
	}
	tr.want("queueAddAfter high", "queueForget", "syncEnd stalled", "queueDone")
	tr.log(3, "Enqueuing Foo", "foo", "default/a", "reason", "rollout of a", "after", "500ms")
	if s := tr.find("queueAddAfter"); s.Lane != deployments {
		t.Errorf("queued by the handler of %q", s.Lane)
	}
	tr.want("queueAddAfter high")
	tr.at(604, func(*tracer, *pod) {})
	tr.want("queueReady high")
	tr.at(2000, func(*tracer, *pod) {})
	tr.want()
}

// The workqueue is late: it drops a delay that is added when another one has elapsed, but the key is not queued yet.
func TestLateDelay(t *testing.T) {
	tr := newTracing(t)
	for _, at := range []float64{0, 510} {
		tr.log(at, "Enqueuing Foo", "foo", "default/a", "reason", "rollout of a", "after", "500ms")
	}
	tr.steps = nil
	tr.log(520, "Started syncing", "foo", "default/a", "retries", 0)
	tr.log(521, "Finished syncing", "foo", "default/a", "result", "success", "duration", "1ms", "err", nil)
	tr.want("queueReady high", "queueGet high", "syncStart", "queueForget", "syncEnd success", "queueDone")
	tr.at(2000, func(*tracer, *pod) {})
	tr.want()
}

func TestResync(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Updating Foo", "foo", map[string]string{"namespace": "default", "name": "a"}, "resourceVersion", "10", "isResync", true)
	tr.want("fifoPush Sync", "fifoPop Sync", "handler resync")
}

// A standby has no handlers, but its Indexer gets the events.
func TestIndexerWithoutHandler(t *testing.T) {
	tr := newTracing(t)
	tr.event(0, foos, "ADDED", "10")
	tr.steps = nil
	tr.at(251, func(*tracer, *pod) {})
	tr.want("fifoPop Added", "indexerSet Added")
}

func TestFrozenProcess(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Enqueuing Foo", "foo", "default/a", "reason", "changed", "after", "100ms")
	tr.event(0, foos, "ADDED", "10")
	tr.at(1, func(tr *tracer, p *pod) { tr.freeze(p) })
	tr.steps = nil
	tr.event(2, foos, "MODIFIED", "11")
	tr.want("watchEvent MODIFIED")
	tr.at(1000, func(*tracer, *pod) {})
	tr.want()
	tr.at(1001, func(tr *tracer, p *pod) { tr.thaw(p) })
	tr.at(1002, func(*tracer, *pod) {})
	if at := tr.find("queueReady").Time; at.Before(start.Add(1001 * time.Millisecond)) {
		t.Errorf("a delay elapsed at %s, while the process was frozen", at)
	}
	tr.want("fifoPush Updated", "queueReady high")
	tr.at(1253, func(*tracer, *pod) {})
	tr.want("fifoPop Added", "indexerSet Added", "fifoPop Updated", "indexerSet Updated")
}

func TestNewProcessHasEmptyQueue(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Enqueuing Foo", "foo", "default/a", "reason", "added", "priority", "high")
	tr.at(1, func(tr *tracer, p *pod) { tr.reset(p) })
	tr.log(2, "Enqueuing Foo", "foo", "default/a", "reason", "initial list", "priority", "low")
	tr.want("queueAdd high", "queueReset", "queueAdd low")
}

func TestUnknownMessage(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Something new", "foo", "default/a", "reason", "progress")
	if s := tr.find("log"); s.What != "Something new" || s.Key != "default/a" || s.Stop != "sync" {
		t.Errorf("got %+v", s)
	}
	tr.want("log")
}

// A standby tries to acquire the Lease every second, which changes nothing.
func TestElection(t *testing.T) {
	tr := newTracing(t)
	tr.log(0, "Attempting to acquire leader lease...", "lock", "default/sample-controller")
	tr.log(1, "Lease is held by and has not yet expired", "lock", "default/sample-controller")
	tr.log(1, "Failed to acquire lease", "lock", "default/sample-controller")
	tr.want("notLeader")
}

func TestCaller(t *testing.T) {
	sources := fstest.MapFS{
		"controller.go":          {Data: []byte("package main\n\nfunc first() {\n}\n\nfunc (c *Controller) second() {\n\tlog()\n}\n\nfunc third() {\n}\n")},
		"pkg/control/control.go": {Data: []byte("package control\n\nfunc New() {\n\tlog()\n}\n")},
	}
	for logged, want := range map[string]string{
		"sample-controller/controller.go:7": "controller.go:7 second",
		"control/control.go:4":              "pkg/control/control.go:4 New",
		"cache/reflector.go:4":              "cache/reflector.go:4",
	} {
		if got := caller(sources, logged); got != want {
			t.Errorf("%s is shown as %s, want %s", logged, got, want)
		}
	}
}
