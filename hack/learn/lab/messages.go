// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/priorityqueue"
)

// message says which step a log message is. A message that is not in the table becomes a step of the kind log.
type message struct {
	stop, kind string
	lane       string
	object     string // the field of the log line with the object
	what       string // default: the message; {field} is replaced by a field
	why        string // the field with the reason
	result     string
	// trace traces the step instead, and what can be inferred from it.
	trace func(t *tracer, p *pod, l line, s Step)
}

// messages maps the messages of the log at -v=4 to steps. It is the only place that knows them.
var messages = map[string]message{
	// Handlers.
	"Adding Foo":          {stop: "handler", kind: "handler", lane: foos, object: "foo", trace: traceHandler("add")},
	"Updating Foo":        {stop: "handler", kind: "handler", lane: foos, object: "foo", trace: traceHandler("update")},
	"Adding Deployment":   {stop: "handler", kind: "handler", lane: deployments, object: "deployment", trace: traceHandler("add")},
	"Updating Deployment": {stop: "handler", kind: "handler", lane: deployments, object: "deployment", trace: traceHandler("update")},
	"Deleting Deployment": {stop: "handler", kind: "handler", lane: deployments, object: "deployment", trace: traceHandler("delete")},
	"Foo not enqueued":    {stop: "handler", kind: "notEnqueued", what: "not queued", why: "reason", trace: traceNotEnqueued},
	"Enqueuing Foo":       {stop: "queue", kind: "queueAdd", why: "reason", trace: traceEnqueue},

	// Workers and syncs.
	"Starting workers":      {stop: "worker", kind: "workersStarted", trace: traceWorkers},
	"Shutting down workers": {stop: "worker", kind: "workersStopped", what: "no worker takes another key"},
	"Started syncing":       {stop: "sync", kind: "syncStart", trace: traceSyncStart},
	"Finished syncing":      {stop: "sync", kind: "syncEnd", trace: traceSyncEnd},

	"Read Foo from the API server; it has not changed": inSync(foos, "read", ""),
	"Read Foo from cache":                              inSync(foos, "read", "read from the Indexer: generation {generation}"),
	"Foo does not exist":                               inSync(foos, "gone", "not in the Indexer: nothing to do"),
	"Foo is being deleted; leaving its Deployments to the garbage collector": inSync(foos, "gone", ""),
	"Read Deployment from cache":                                  inSync(deployments, "read", "read from the Indexer"),
	"Deployment is not in the cache":                              inSync(deployments, "missing", "not in the Indexer"),
	"Deployment is being deleted; waiting until its name is free": inSync(deployments, "waiting", ""),
	"Deployment is in its desired state":                          inSync(deployments, "same", "nothing differs"),
	"Deployment differs from its desired state":                   inSync(deployments, "differs", "differs: {differences}"),
	"Read Deployment from the API server; it can take over": {stop: "sync", kind: "sync", lane: deployments, object: "current",
		result: "read"},
	"Deployment exists; read it from the API server":               inSync(deployments, "read", ""),
	"Error syncing Foo; requeuing with backoff":                    inSync(foos, "error", "failed"),
	"Created Deployment":                                           inSync(deployments, "written", "created"),
	"Patching Deployment":                                          inSync(deployments, "patch", "patch: {patch}"),
	"Patched Deployment":                                           inSync(deployments, "written", "patched"),
	"Keeping superseded Deployment until the new one is available": inSync(deployments, "waiting", ""),
	"Deleted superseded Deployment":                                inSync(deployments, "written", ""),
	"Computed status": {stop: "sync", kind: "sync", lane: foos, object: "foo", result: "status",
		what: "computed the status; differs: {differs}"},
	"Updated status":   inSync(foos, "written", "wrote the status"),
	"Foo is not ready": {stop: "sync", kind: "sync", lane: foos, object: "foo", result: "notReady", what: "not ready: {reason}", why: "message"},

	// Processes. Only the leader starts its workers.
	"Attempting to acquire leader lease...": {stop: "fault", kind: "notLeader", what: "waits for the Lease"},
	"Successfully acquired lease":           {stop: "fault", kind: "log", what: "acquired the Lease"},
}

// inSync returns the message of a sync about a Foo or a Deployment.
func inSync(lane, result, what string) message {
	return message{stop: "sync", kind: "sync", lane: lane, object: map[string]string{foos: "foo", deployments: "deployment"}[lane], result: result, what: what}
}

// deploymentReasons are how the reasons begin for which the handlers of Deployments enqueue a Foo.
var deploymentReasons = []string{"controller of ", "rollout of ", "Deployment of the desired name was added or deleted, or has another controller"}

// ignoredCallers are packages whose messages say nothing about a key or an object.
var ignoredCallers = []string{"features/", "record/", "server/"}

// ignoredMessages are what a standby logs each time that it has tried to acquire the Lease.
var ignoredMessages = []string{"Lease is held by and has not yet expired", "Failed to acquire lease"}

// line is a line of the JSON log.
type line struct {
	caller  string
	message string
	fields  map[string]any
	raw     string
}

// parseLine returns a line of the log, or false if it is not one in JSON.
func parseLine(text string) (l line, ok bool) {
	if json.Unmarshal([]byte(text), &l.fields) != nil || l.text("msg") == "" {
		return l, false
	}
	l.raw, l.caller, l.message = text, l.text("caller"), l.text("msg")
	return l, true
}

// text returns a field as text. An object reference becomes namespace/name.
func (l line) text(name string) string {
	switch value := l.fields[name].(type) {
	case nil:
		return ""
	case string:
		return value
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case map[string]any:
		object, _ := value["name"].(string)
		if namespace, _ := value["namespace"].(string); namespace != "" {
			return namespace + "/" + object
		}
		return object
	default:
		text, _ := json.Marshal(value)
		return string(text)
	}
}

func (l line) number(name string) int {
	number, _ := l.fields[name].(float64)
	return int(number)
}

func (l line) is(name string) bool {
	is, _ := l.fields[name].(bool)
	return is
}

func (l line) duration(name string) time.Duration {
	duration, _ := time.ParseDuration(l.text(name))
	return duration
}

var fieldReferences = regexp.MustCompile(`\{\w+\}`)

// expand replaces {field} by the fields of the line.
func (l line) expand(text string) string {
	return fieldReferences.ReplaceAllStringFunc(text, func(reference string) string { return l.text(strings.Trim(reference, "{}")) })
}

// traceLine traces a line of an instance's log.
func (t *tracer) traceLine(p *pod, l line) {
	for _, prefix := range ignoredCallers {
		if strings.HasPrefix(l.caller, prefix) {
			return
		}
	}
	if slices.Contains(ignoredMessages, l.message) {
		return
	}
	m, known := messages[l.message]
	if !known {
		m = message{stop: unknownStop(l), kind: "log"}
	}
	s := Step{
		Source: logged, Stop: m.stop, Kind: m.kind, Pod: p.name, Key: l.text("foo"), Object: l.text(m.object),
		ResourceVersion: l.text("resourceVersion"), What: cmp.Or(l.expand(m.what), l.message), Why: l.text(m.why), Result: m.result,
		Lane: m.lane, Code: t.code(l.caller), Raw: l.raw, Error: l.text("err"),
	}
	if m.object == "" && s.ResourceVersion != "" && s.Lane == "" {
		s.Object = cmp.Or(l.text("object"), l.text("deployment"), l.text("foo"))
	}
	if m.trace != nil {
		m.trace(t, p, l, s)
		return
	}
	t.emit(s)
}

// unknownStop returns the stop of a message that is not in the table.
func unknownStop(l line) string {
	switch {
	case l.text("foo") != "":
		return "sync"
	case strings.HasPrefix(l.caller, "cache/"):
		return "reflector"
	case strings.HasPrefix(l.caller, "leaderelection/"), strings.HasPrefix(l.caller, "election/"):
		return "fault"
	}
	return "worker"
}

// traceHandler traces the call of an event handler, after what must have happened before it.
func traceHandler(eventType string) func(t *tracer, p *pod, l line, s Step) {
	return func(t *tracer, p *pod, l line, s Step) {
		t.traceHandler(p, s, eventType, l)
	}
}

func (t *tracer) traceHandler(p *pod, s Step, eventType string, l line) {
	s.EventType = eventType
	switch {
	case l.is("isInInitialList"):
		s.EventType = "initialList"
		t.handled(p, s.Lane, s.Object, s.ResourceVersion) // It was in the Indexer before the handler was added.
	case l.is("isResync"):
		s.EventType = "resync"
		step := Step{Source: inferred, Stop: "fifo", Kind: "fifoPush", Lane: s.Lane, Pod: p.name, Object: s.Object,
			ResourceVersion: s.ResourceVersion, EventType: "Sync", What: "a resync repeats what is in the Indexer", Code: codeFIFOResync}
		t.emit(step)
		step.Kind, step.What, step.Code = "fifoPop", "out of the FIFO", codeFIFOPop
		t.emit(step)
	case eventType != "delete":
		t.handled(p, s.Lane, s.Object, s.ResourceVersion)
	case !t.handled(p, s.Lane, s.Object, "") && p.isMissed(s.Lane, s.Object) || l.is("isTombstone"):
		s.EventType, s.Why = "tombstone", "the list lacks it, and the watch did not say that it was deleted"
	}
	if s.Lane == deployments {
		s.Key = t.owners[s.Object]
	}
	s.What = "handler: " + s.EventType
	t.emit(s)
}

// traceNotEnqueued traces that a handler adds no key. If the line is about a Foo itself, it is the handler of Foos.
func traceNotEnqueued(t *tracer, _ *pod, l line, s Step) {
	s.Lane, s.Object = deployments, cmp.Or(l.text("deployment"), l.text("object"))
	if s.Object == "" {
		s.Lane, s.Object = foos, s.Key
	}
	t.emit(s)
}

// traceEnqueue traces that a handler adds a key, or that a worker does so with a delay, because the Foo is stalled.
func traceEnqueue(t *tracer, p *pod, l line, s Step) {
	if s.Why == "deleted" { // The handler of Foos logs nothing else.
		handler := s
		handler.Stop, handler.Kind, handler.Lane, handler.Object, handler.Why = "handler", "handler", foos, s.Key, ""
		t.traceHandler(p, handler, "delete", l)
	}
	s.Lane = foos
	for _, reason := range deploymentReasons {
		if strings.HasPrefix(s.Why, reason) {
			s.Lane = deployments
		}
	}
	s.Priority = cmp.Or(l.text("priority"), "high")
	if delay := l.duration("after"); delay > 0 {
		s.Kind, s.Delay, s.What = "queueAddAfter", delay.Seconds(), "queued after a delay"
		if s.Lane == foos { // The handler of Foos delays none.
			s.Lane = ""
			s.Priority, s.Merged = p.queue.retryAfter(s.Key, t.now.Add(delay))
		} else {
			s.Merged = p.queue.addAfter(s.Key, s.Priority, t.now.Add(delay))
		}
		t.emit(s)
		return
	}
	s.Merged = p.queue.add(s.Key, s.Priority)
	s.What = map[string]string{
		"": "queued", "waiting": "is in the queue already", "raised": "is in the queue already, and moves up to high priority",
		"processing": "is being processed: queued again when that is done",
	}[s.Merged]
	t.emit(s)
}

func traceWorkers(t *tracer, p *pod, l line, s Step) {
	s.Count = l.number("count")
	leader := s
	leader.Stop, leader.Kind, leader.What = "fault", "leader", "leads, and starts its workers"
	t.emit(leader)
	t.emit(s)
}

// traceSyncStart traces that a worker takes a key.
func traceSyncStart(t *tracer, p *pod, l line, s Step) {
	s.Retries = l.number("retries")
	for _, d := range p.queue.elapsed(t.now.Add(timerDelay)) { // The workqueue has merged a delay that is over.
		if d.key == s.Key {
			t.elapse(p, d, t.now)
		}
	}
	work, priority, known := p.queue.get(s.Key, s.Retries)
	s.Worker = work.worker
	step := Step{Source: inferred, Stop: "queue", Pod: p.name, Key: s.Key}
	if !known {
		ready := step
		ready.Kind, ready.Priority, ready.What, ready.Code = "queueReady", priority, "the delay has elapsed", codeQueueReady
		t.emit(ready)
	}
	step.Kind, step.Priority, step.Retries, step.Worker = "queueGet", priority, s.Retries, s.Worker
	step.What, step.Code = "a worker takes the key", codeQueueGet
	t.emit(step)
	s.What = "syncHandler begins"
	t.emit(s)
}

// requeueDelay is the delay of a key whose sync is repeated although it has not failed: retryDelay of controller.go. It is not logged.
const requeueDelay = time.Second

// retryDelay returns the delay of a key whose sync has failed, which is not logged either. What the rate limiter delays for all keys together is
// not known.
func retryDelay(retries int) time.Duration {
	if retries > 30 { // It would not fit into a Duration.
		return priorityqueue.MaxRetryDelay
	}
	return min(priorityqueue.FirstRetryDelay<<retries, priorityqueue.MaxRetryDelay)
}

// traceSyncEnd traces the end of a sync, and what handleErr does with the key.
func traceSyncEnd(t *tracer, p *pod, l line, s Step) {
	s.Result, s.Duration = l.text("result"), l.duration("duration").Seconds()
	s.What = "syncHandler ends: " + s.Result
	step := Step{Source: inferred, Stop: "queue", Pod: p.name, Key: s.Key}
	if work := p.queue.processing[s.Key]; work != nil {
		s.Worker, s.Retries = work.worker, work.retries
	}
	if s.Result == metrics.Success || s.Result == metrics.Stalled {
		forget := step
		forget.Kind, forget.Retries, forget.What, forget.Code = "queueForget", s.Retries, "Forget: there were no retries", codeQueueForget
		if s.Retries > 0 {
			forget.What = "Forget cleared " + strconv.Itoa(s.Retries) + " retries"
		}
		t.emit(forget)
	}
	var delay time.Duration
	step.Kind, step.Why, step.What, step.Code = "queueAddAfter", s.Result, "queued after a delay", codeHandleErr
	switch s.Result {
	case metrics.Success, metrics.Stalled: // The delay of the latter was logged.
	case metrics.Stale, metrics.NotLeading, metrics.Paused:
		delay = requeueDelay
	default:
		delay = retryDelay(s.Retries)
		step.Kind, step.Retries, step.What, step.Code = "queueAddRateLimited", s.Retries+1, "queued with backoff", codeQueueRetry
	}
	if delay > 0 {
		s.Delay, step.Delay = delay.Seconds(), delay.Seconds()
		step.Priority, step.Merged = p.queue.retryAfter(s.Key, t.now.Add(delay))
		t.emit(step)
	}
	t.emit(s)
	done := Step{Source: inferred, Stop: "queue", Kind: "queueDone", Pod: p.name, Key: s.Key, Worker: s.Worker,
		What: "Done: the key is no longer processed", Code: codeQueueDone}
	if done.Priority = p.queue.done(s.Key); done.Priority != "" {
		done.Merged, done.What = "processing", "Done: the key was added meanwhile, and is queued again"
	}
	t.emit(done)
}
