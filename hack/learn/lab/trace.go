// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"io/fs"
	"slices"
	"time"
)

// Where client-go does what no log line shows.
const (
	codeWatch       = "client-go/tools/cache/reflector.go handleAnyWatch"
	codeWatchList   = "client-go/tools/cache/reflector.go watchList"
	codeFIFOAdd     = "client-go/tools/cache/the_real_fifo.go addToItems_locked"
	codeFIFOReplace = "client-go/tools/cache/the_real_fifo.go Replace"
	codeFIFOResync  = "client-go/tools/cache/the_real_fifo.go Resync"
	codeFIFOPop     = "client-go/tools/cache/the_real_fifo.go PopBatch"
	codeIndexer     = "client-go/tools/cache/controller.go processDeltasInBatch"
	codeReplaced    = "client-go/tools/cache/controller.go processReplacedAllInfo"
	codeQueueGet    = "client-go/util/workqueue/queue.go Get"
	codeQueueDone   = "client-go/util/workqueue/queue.go Done"
	codeQueueForget = "client-go/util/workqueue/rate_limiting_queue.go Forget"
	codeHandleErr   = "controller.go handleErr"
	codeQueueRetry  = "client-go/util/workqueue/rate_limiting_queue.go AddRateLimited"
	codeQueueReady  = "client-go/util/workqueue/delaying_queue.go waitingLoop"
	codeRequest     = "client-go/rest/request.go Do"
)

// indexerTimeout is how long after an event the Indexer is taken to have it, if no handler says so: on a standby there is none.
const indexerTimeout = 250 * time.Millisecond

// timerDelay is how long after its time a delayed key is taken to be queued, if no sync says so. If it is delayed once more meanwhile, the
// workqueue, which is as late, may know the first delay still, and keep only that.
const timerDelay = 100 * time.Millisecond

// tracer turns records into steps. What no record shows it infers from the state that it keeps of each instance.
type tracer struct {
	sources fs.FS             // the code of this project
	callers map[string]string // what caller has returned, which takes milliseconds in a browser
	now     time.Time
	seq     int64
	steps   []Step // not taken yet

	pods   map[string]*pod
	owners map[string]string // Foo by Deployment
}

// pod is what is known of an instance of the controller.
type pod struct {
	name   string
	frozen bool
	lanes  map[string]*lane
	queue  queue
}

// lane is what is known of an informer.
type lane struct {
	listing bool
	listed  map[string]bool // objects of the list that is being received
	pending []delivered     // events that have not reached the Indexer
	objects map[string]bool // in the Indexer
	missed  map[string]bool // objects that are gone, although no event said so
	unread  []Step          // into the FIFO, of events that a frozen process has not read
	failed  string          // why the API server ends the watch, if it is an error
}

type delivered struct {
	at              time.Time
	object          string
	resourceVersion string
	eventType       string
}

func newTracer(sources fs.FS) *tracer {
	return &tracer{sources: sources, callers: map[string]string{}, pods: map[string]*pod{}, owners: map[string]string{}}
}

func (t *tracer) pod(name string) *pod {
	if t.pods[name] == nil {
		t.pods[name] = newPod(name)
	}
	return t.pods[name]
}

func newPod(name string) *pod {
	return &pod{name: name, queue: newQueue(), lanes: map[string]*lane{foos: newLane(), deployments: newLane()}}
}

func newLane() *lane { return &lane{objects: map[string]bool{}, missed: map[string]bool{}} }

// emit appends a step and returns its number.
func (t *tracer) emit(s Step) int64 {
	t.seq++
	s.Seq = t.seq
	if s.Time.IsZero() {
		s.Time = t.now
	}
	s.Time = s.Time.Truncate(time.Microsecond)
	t.steps = append(t.steps, s)
	return s.Seq
}

// take returns the steps since the last call.
func (t *tracer) take() []Step {
	steps := t.steps
	t.steps = nil
	return steps
}

// elapse infers that the delay of a key has elapsed.
func (t *tracer) elapse(p *pod, d delayed, at time.Time) {
	delete(p.queue.delayed, d)
	t.emit(Step{Time: at, Source: inferred, Stop: "queue", Kind: "queueReady", Pod: p.name, Key: d.key, Priority: d.priority,
		Merged: p.queue.add(d.key, d.priority), What: "the delay has elapsed", Code: codeQueueReady})
}

// advance infers what happens until a time: delays elapse, and events reach Indexers.
func (t *tracer) advance(to time.Time) {
	for _, p := range t.pods {
		if p.frozen {
			continue
		}
		for _, d := range p.queue.elapsed(to.Add(-timerDelay)) {
			at := p.queue.delayed[d]
			if at.Before(t.now) { // The process was frozen, or timerDelay has passed.
				at = t.now
			}
			t.elapse(p, d, at)
		}
		for name, l := range p.lanes {
			for len(l.pending) > 0 && to.Sub(l.pending[0].at) > indexerTimeout {
				t.reachIndexer(p, name, 0)
			}
		}
	}
	t.now = to
}

// store traces that the API server has a new state of an object.
func (t *tracer) store(lane, eventType string, d described) {
	if lane == deployments && d.owner != "" {
		t.owners[d.object] = d.owner
	}
	t.emit(Step{Source: wire, Stop: "api-server", Kind: "stored", Lane: lane, Object: d.object, ResourceVersion: d.resourceVersion,
		EventType: eventType, What: "stored: " + eventType, Raw: d.raw})
}

// event is an event of a watch.
type event struct {
	described
	eventType string // ADDED, MODIFIED, DELETED or BOOKMARK
}

// watchEvent traces an event that was sent to an instance.
func (t *tracer) watchEvent(p *pod, lane string, e event) {
	l := p.lanes[lane]
	step := Step{Source: wire, Stop: "reflector", Kind: "watchEvent", Lane: lane, Pod: p.name, Object: e.object,
		ResourceVersion: e.resourceVersion, EventType: e.eventType, What: e.eventType + " arrived", Code: codeWatch, Raw: e.raw}
	if e.owner != "" {
		step.Key = e.owner
		t.owners[e.object] = e.owner
	} else if lane == foos {
		step.Key = e.object
	}
	switch {
	case e.eventType == "BOOKMARK" && l.listing && e.initialEventsEnd:
		t.replace(p, lane, e)
		return
	case e.eventType == "BOOKMARK":
		step.Kind, step.What = "bookmark", "bookmark: nothing changed until here"
		t.emit(step)
		return
	case l.listing:
		step.Merged, step.What = "list", "part of the initial list"
		l.listed[e.object] = true
		t.emit(step)
		return
	}
	if p.frozen {
		step.What += ": the frozen process has not read it"
	}
	t.emit(step)
	if e.eventType == "DELETED" && lane == deployments {
		delete(t.owners, e.object)
	}
	d := delivered{at: t.now, object: e.object, resourceVersion: e.resourceVersion, eventType: deltaTypes[e.eventType]}
	l.pending = append(l.pending, d)
	push := Step{Source: inferred, Stop: "fifo", Kind: "fifoPush", Lane: lane, Pod: p.name, Object: e.object,
		ResourceVersion: e.resourceVersion, EventType: d.eventType, What: "into the FIFO: " + d.eventType, Code: codeFIFOAdd}
	if p.frozen {
		l.unread = append(l.unread, push)
		return
	}
	t.emit(push)
}

// deltaTypes are the types of client-go's deltas by that of the watch event.
var deltaTypes = map[string]string{"ADDED": "Added", "MODIFIED": "Updated", "DELETED": "Deleted"}

// replace traces the end of an initial list, which replaces the content of the Indexer.
func (t *tracer) replace(p *pod, lane string, e event) {
	l := p.lanes[lane]
	for _, d := range l.pending {
		t.emit(Step{Source: inferred, Stop: "fifo", Kind: "fifoPop", Lane: lane, Pod: p.name, Object: d.object,
			ResourceVersion: d.resourceVersion, EventType: d.eventType, What: "out of the FIFO", Code: codeFIFOPop})
	}
	step := Step{Source: wire, Stop: "reflector", Kind: "listed", Lane: lane, Pod: p.name, ResourceVersion: e.resourceVersion,
		Count: len(l.listed), What: "the initial list is complete", Code: codeWatchList}
	t.emit(step)
	step.Source, step.EventType = inferred, "Replaced"
	step.Stop, step.Kind, step.What, step.Code = "fifo", "fifoPush", "into the FIFO: Replaced", codeFIFOReplace
	t.emit(step)
	step.Kind, step.What, step.Code = "fifoPop", "out of the FIFO", codeFIFOPop
	t.emit(step)
	step.Stop, step.Kind, step.What, step.Code = "indexer", "indexerReplaced", "the list replaces the cache", codeReplaced
	t.emit(step)
	for object := range l.objects {
		if !l.listed[object] {
			l.missed[object] = true
		}
	}
	l.objects, l.listed, l.listing, l.pending = l.listed, nil, false, nil
}

// reachIndexer traces that the pending event with an index is taken from the FIFO and reaches the Indexer.
func (t *tracer) reachIndexer(p *pod, lane string, index int) {
	l := p.lanes[lane]
	d := l.pending[index]
	l.pending = slices.Delete(l.pending, index, index+1)
	if d.eventType == "Deleted" {
		delete(l.objects, d.object)
	} else {
		l.objects[d.object] = true
	}
	step := Step{Source: inferred, Stop: "fifo", Kind: "fifoPop", Lane: lane, Pod: p.name, Object: d.object,
		ResourceVersion: d.resourceVersion, EventType: d.eventType, What: "out of the FIFO", Code: codeFIFOPop}
	t.emit(step)
	step.Stop, step.Kind, step.What, step.Code = "indexer", "indexerSet", "into the Indexer", codeIndexer
	if d.eventType == "Deleted" {
		step.What = "deleted from the Indexer"
	}
	t.emit(step)
}

// handled traces that the events about an object have reached the Indexer, since a handler has been called for it. With a
// resourceVersion, later events have not. It reports whether one of the events was the object's deletion.
func (t *tracer) handled(p *pod, lane, object, resourceVersion string) (deleted bool) {
	l := p.lanes[lane]
	through := -1
	for i, d := range l.pending {
		if d.object == object && (resourceVersion == "" && d.eventType == "Deleted" || d.resourceVersion == resourceVersion) {
			through = i
			break
		}
	}
	for range through + 1 { // The FIFO is in order, so that all earlier ones have, too.
		deleted = l.pending[0].object == object && l.pending[0].eventType == "Deleted"
		t.reachIndexer(p, lane, 0)
	}
	return deleted
}

// isMissed reports whether a delete handler was called for an object whose deletion was missed.
func (p *pod) isMissed(lane, object string) bool {
	missed := p.lanes[lane].missed[object]
	delete(p.lanes[lane].missed, object)
	return missed
}

// freeze and thaw trace that the process of an instance is stopped by a signal and continues. Nothing elapses in between.
func (t *tracer) freeze(p *pod) { p.frozen = true }

func (t *tracer) thaw(p *pod) {
	p.frozen = false
	for _, name := range []string{foos, deployments} {
		l := p.lanes[name]
		for _, push := range l.unread {
			t.emit(push)
		}
		l.unread = nil
		for i := range l.pending {
			l.pending[i].at = t.now
		}
	}
}

// reset forgets all of an instance whose process has ended.
func (t *tracer) reset(p *pod) {
	t.emit(Step{Source: inferred, Stop: "queue", Kind: "queueReset", Pod: p.name, What: "a new process has an empty queue"})
	*p = *newPod(p.name)
}
