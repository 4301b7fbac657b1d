// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"io/fs"
	"strings"
	"time"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	"k8s.io/sample-controller/hack/simulation/recording"
)

// walk traces a walk of hack/simulation, from its recording.
type walk struct {
	*tracer
	names    map[string]string          // of the pods, by the instances whose processes run
	requests map[int]*apiserver.Request // by ID
	sent     map[int]Step               // what the response to a request has as well
	sentAt   map[int]time.Duration
}

// walkStart is when a walk starts, as in all virtual time.
var walkStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// traceWalk returns the steps of the recording in a text.
func (l *Lab) traceWalk(body []byte) Response {
	var request struct{ Text string }
	if err := json.Unmarshal(body, &request); err != nil {
		return Response{Error: err.Error()}
	}
	entries, err := recording.Read(strings.NewReader(request.Text))
	if err != nil {
		return Response{Error: err.Error()}
	}
	steps, err := traceWalk(l.sources, entries)
	if err != nil {
		return Response{Error: err.Error()}
	}
	return Response{Steps: steps}
}

// traceWalk returns the steps of a walk.
func traceWalk(sources fs.FS, entries []recording.Entry) ([]Step, error) {
	w := &walk{newTracer(sources), map[string]string{}, map[int]*apiserver.Request{}, map[int]Step{}, map[int]time.Duration{}}
	w.now = walkStart
	for _, e := range entries {
		at := walkStart.Add(e.At)
		for next := w.now.Add(tickPeriod); next.Before(at); next = next.Add(tickPeriod) {
			w.advance(next)
		}
		w.advance(at)
		if err := w.trace(e); err != nil {
			return nil, err
		}
	}
	return w.take(), nil
}

// trace traces an entry. Nothing is heard of a process that has ended.
func (w *walk) trace(e recording.Entry) error {
	o, err := e.Decode()
	if err != nil && e.Object != nil {
		return err
	}
	switch e.Kind {
	case recording.Told:
		w.tell(e)
	case recording.Broken:
		w.emit(Step{Source: wire, Stop: "promise", Kind: "promise", Name: e.Promise, What: "is broken", Error: e.Text})
	case recording.Stored:
		if lane := laneOf(e.Request.Resource); lane != "" {
			w.store(lane, string(e.Type), describe(o))
		}
	case recording.Started:
		w.start(e.Client)
	case recording.Requested:
		w.requests[e.ID] = e.Request
	}
	name, runs := w.names[e.Client]
	if !runs {
		return nil
	}
	p, r := w.pod(name), w.requests[e.ID]
	switch {
	case e.Kind == recording.Ended:
		delete(w.names, e.Client)
		w.emit(Step{Source: wire, Stop: "fault", Kind: "podExited", Pod: name, What: "the process of " + e.Client + " has ended: " + strings.TrimPrefix(e.Text, "ends: ")})
		w.reset(p)
	case e.Kind == recording.Logged:
		if l, ok := parseLine(e.Text); ok {
			w.traceLine(p, l)
		}
	case r == nil:
	case r.Resource.Resource == leases:
		if e.Kind == recording.Responded && r.Verb != "watch" {
			w.lease(p, r, o, e.Err())
		}
	case r.Verb == "watch":
		w.traceWatch(p, r, e, o)
	case e.Kind == recording.Requested:
		w.sent[e.ID], w.sentAt[e.ID] = w.send(p, r), e.At
	default:
		s := w.sent[e.ID]
		s.Duration = (e.At - w.sentAt[e.ID]).Seconds()
		w.response(p, s, o, e.Err())
	}
	return nil
}

// traceWatch traces what happens to a watch.
func (w *walk) traceWatch(p *pod, r *apiserver.Request, e recording.Entry, o *object) {
	switch {
	case laneOf(r.Resource) == "": // No informer has it.
	case e.Kind == recording.Responded:
		w.watch(p, r, e.Err())
	case e.Kind == recording.Event:
		w.event(p, r, e.Type, o)
	case e.Kind == recording.WatchEnd:
		w.watchEnd(p, r)
	}
}

// start traces that the process of an instance starts. It is the pod of one that has ended, if there is one.
func (w *walk) start(instance string) {
	taken := map[string]bool{}
	for _, name := range w.names {
		taken[name] = true
	}
	name := "a"
	for taken[name] {
		name = string(name[0] + 1)
	}
	w.names[instance] = name
	w.emit(Step{Source: wire, Stop: "fault", Kind: "podStarted", Pod: name, What: "the process of " + instance + " starts"})
}

// tell traces a line of the story: what users do is an act, and what happens to instances and to the network is a fault.
func (w *walk) tell(e recording.Entry) {
	s := Step{Source: wire, Stop: "fault", Kind: "fault", Pod: w.names[e.Client], What: e.Client + ": " + e.Text}
	if e.Client == "user" {
		s.Stop, s.Kind, s.What = "act", "act", e.Text
	}
	w.emit(s)
}
