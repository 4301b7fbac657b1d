// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// observer observes the requests of an instance and the events that it gets.
type observer struct {
	pod    string
	merger *merger
	gate   *gate
}

// wrap is for faults.Proxy.Wrap.
func (o *observer) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := faults.RequestOf(r)
		switch {
		case request.Resource == "" || request.Resource == "leases":
			next.ServeHTTP(w, r)
		case request.Verb == "watch":
			o.watch(w, r, request, next)
		default:
			o.request(w, r, request, next)
		}
	})
}

func (o *observer) record(at time.Time, trace func(*tracer, *pod)) {
	o.merger.record(at, func(t *tracer) { trace(t, t.pod(o.pod)) })
}

// hold makes a request or an event wait if there is slow motion, and traces that.
func (o *observer) hold(r *http.Request, s func() Step) {
	if !o.gate.closed() {
		return
	}
	step := s()
	trace := func(kind, what string) {
		held := step
		held.Source, held.Kind, held.What = wire, kind, what
		o.record(time.Now(), func(t *tracer, p *pod) {
			held.Pod, held.Key = p.name, t.keyOf(held)
			t.emit(held)
		})
	}
	trace("held", "waits: slow motion")
	o.gate.wait(r.Context())
	trace("released", "continues")
}

// request observes a request for a single object, or a list, from when it arrives until the response has been sent.
func (o *observer) request(w http.ResponseWriter, r *http.Request, request faults.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Del("Accept-Encoding") // What is compressed cannot be read here.
	step := Step{Source: wire, Verb: request.Verb, Resource: request.Resource, Object: objectName(request.Namespace, request.Name)}
	if request.Resource != "events" {
		step.Lane, _, _ = strings.Cut(request.Resource, "/")
	}
	if step.Lane == foos || step.Lane == deployments {
		o.hold(r, func() Step {
			held := step
			held.Stop = "request"
			return held
		})
	}
	sent := time.Now()
	o.record(sent, func(t *tracer, p *pod) {
		s := t.request(p, step, body)
		step.Request, step.Key, step.Object = s.Seq, s.Key, s.Object
	})

	response := &responseWriter{ResponseWriter: w}
	defer func() {
		at := response.began
		if at.IsZero() {
			at = time.Now()
		}
		o.record(at, func(t *tracer, p *pod) {
			step.Duration = at.Sub(sent).Seconds()
			t.response(p, step, response)
		})
	}()
	next.ServeHTTP(response, r)
}

// responseWriter remembers the response to a request.
type responseWriter struct {
	http.ResponseWriter
	began time.Time // zero if there is no response
	code  int
	body  bytes.Buffer
	fault string // that was injected
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(code int) {
	w.began, w.code = time.Now(), code
	w.ResponseWriter.WriteHeader(code)
}

func (w *responseWriter) Write(content []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.body.Write(content)
	return w.ResponseWriter.Write(content)
}

// request traces a request, and returns its step.
func (t *tracer) request(p *pod, s Step, body []byte) Step {
	s.Stop, s.Kind, s.Pod, s.Code = "request", "request", p.name, codeRequest
	s.What = s.Verb + " " + s.Resource
	if o, ok := decode(body); ok {
		s.Raw = o.raw
		if s.Object == "" || strings.HasSuffix(s.Object, "/") {
			s.Object = objectName(strings.TrimSuffix(s.Object, "/"), o.name)
		}
		s.Key = o.owner
	} else if len(body) > 0 && json.Valid(body) {
		s.Raw = string(body)
	}
	s.Key = t.keyOf(s)
	s.Seq = t.emit(s)
	return s
}

// keyOf returns the key that a request is about: a Foo itself, or that of its Deployment.
func (t *tracer) keyOf(s Step) string {
	switch {
	case s.Key != "":
		return s.Key
	case s.Lane == foos:
		return s.Object
	case s.Lane == deployments:
		return t.owners[s.Object]
	}
	return ""
}

// response traces the response to a request, or that there is none.
func (t *tracer) response(p *pod, s Step, w *responseWriter) {
	s.Stop, s.Kind, s.Pod, s.Name, s.Status, s.Code = "response", "response", p.name, w.fault, w.code, codeRequest
	if w.code == 0 {
		s.Kind, s.What = "noResponse", "no response to "+s.Verb+" "+s.Resource
		s.Key = t.keyOf(s)
		t.emit(s)
		return
	}
	s.What = http.StatusText(w.code)
	succeeded := w.code < 300
	o, ok := decode(w.body.Bytes())
	if ok && o.message != "" {
		s.Why = o.message
	}
	if ok && succeeded && o.name != "" {
		s.Object, s.ResourceVersion, s.Key, s.Raw = objectName(o.namespace, o.name), o.resourceVersion, o.owner, o.raw
		if s.Lane == deployments && o.owner != "" {
			t.owners[s.Object] = o.owner
		}
	}
	s.Key = t.keyOf(s)
	isWrite := s.Verb != "get" && s.Verb != "list" && (s.Lane == foos || s.Lane == deployments)
	if !isWrite || !succeeded {
		t.emit(s)
		return
	}
	deleted := s.Verb == "delete"
	if !deleted {
		eventType := "MODIFIED"
		if s.Verb == "create" {
			eventType = "ADDED"
		}
		t.store(s.Lane, eventType, s.Object, s.ResourceVersion, o.raw)
	}
	s.Echo = p.echo(s.Lane, s.Object, s.ResourceVersion, deleted)
	seq := t.emit(s)
	if s.Echo == 0 {
		p.awaitEcho(s.Lane, s.Object, s.ResourceVersion, deleted, seq)
	}
}

// watch observes a watch, from when the API server accepts it until it ends.
func (o *observer) watch(w http.ResponseWriter, r *http.Request, request faults.Request, next http.Handler) {
	began := time.Now()
	query := r.URL.Query()
	step := Step{Source: wire, Stop: "reflector", Kind: "watchStart", Lane: request.Resource, Pod: o.pod, Verb: "watch", Resource: request.Resource,
		ResourceVersion: query.Get("resourceVersion"), Raw: r.URL.RequestURI(), Code: codeWatch}
	isList := query.Get("sendInitialEvents") == "true"
	r.Header.Del("Accept-Encoding")
	events := &eventWriter{responseWriter: responseWriter{ResponseWriter: w}, observer: o, request: r, lane: request.Resource}
	events.accepted = func() {
		o.record(time.Now(), func(t *tracer, p *pod) { t.watchStart(p, step, isList) })
	}
	defer func() {
		ended := step
		ended.Kind, ended.Status, ended.Duration, ended.What = "watchEnd", events.code, time.Since(began).Seconds(), "the watch has ended"
		if events.code >= 300 {
			ended.What = "the API server rejects the watch: " + http.StatusText(events.code)
			if status, ok := decode(events.body.Bytes()); ok {
				ended.Why = status.message
			}
		}
		if events.code > 0 {
			o.record(time.Now(), func(t *tracer, p *pod) { t.emit(ended) })
		}
		// A watch that is cut ends like one that the API server ends, so that the Reflector may resume it.
		if failure := recover(); failure != nil && (failure != http.ErrAbortHandler || r.Context().Err() != nil) {
			panic(failure)
		}
	}()
	next.ServeHTTP(events, r)
}

// watchStart traces a watch that the API server has accepted.
func (t *tracer) watchStart(p *pod, s Step, isList bool) {
	s.What = "watches from resourceVersion " + s.ResourceVersion
	if isList {
		s.EventType, s.What, s.Code = "list", "lists and watches: the watch begins with all objects", codeWatchList
		p.lanes[s.Lane].listing, p.lanes[s.Lane].listed = true, map[string]bool{}
	}
	t.emit(s)
}

// eventWriter passes the response to a watch on event by event.
type eventWriter struct {
	responseWriter
	observer *observer
	request  *http.Request
	lane     string
	accepted func()
	frames   frames
}

func (w *eventWriter) WriteHeader(code int) {
	if code == http.StatusOK {
		w.accepted()
	}
	w.responseWriter.WriteHeader(code)
}

func (w *eventWriter) Write(content []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.code != http.StatusOK {
		w.body.Write(content)
		return w.ResponseWriter.Write(content)
	}
	w.frames.isProtobuf = strings.Contains(w.Header().Get("Content-Type"), "protobuf")
	for frame := range w.frames.split(content) {
		decode := func() event { return decodeEvent(frame, w.frames.isProtobuf) }
		w.observer.hold(w.request, func() Step {
			e := decode()
			return Step{Stop: "reflector", Lane: w.lane, Object: e.object, EventType: e.eventType, ResourceVersion: e.resourceVersion}
		})
		w.observer.record(time.Now(), func(t *tracer, p *pod) { t.watchEvent(p, w.lane, decode()) })
		if _, err := w.ResponseWriter.Write(frame); err != nil {
			return 0, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return 0, err
		}
	}
	return len(content), nil
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
