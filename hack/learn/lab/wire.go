// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// stored traces what the API server stores. It is an apiserver.Observer.
type stored struct{ lab *Lab }

// Committed implements apiserver.Observer.
func (s stored) Committed(c *apiserver.Change) {
	if lane := laneOf(c.Request.Resource); lane != "" {
		s.lab.trace(func(t *tracer) { t.store(lane, string(c.Type), describe(c.New)) })
	}
}

// Failed implements apiserver.Observer.
func (stored) Failed(*apiserver.Request, *object, error) {}

// network traces the requests of an instance and the events that it gets, and injects faults. It is an apiserver.Network.
type network struct {
	lab *Lab
	pod string
}

// trace traces with what is known of the instance.
func (n *network) trace(trace func(*tracer, *pod)) {
	n.lab.trace(func(t *tracer) { trace(t, t.pod(n.pod)) })
}

// Request implements apiserver.Network.
func (n *network) Request(r *apiserver.Request) (apiserver.Fault, func(*object, error)) {
	if r.Verb == "watch" && r.Resource.Resource != leases {
		return apiserver.Fault{}, func(_ *object, err error) { n.trace(func(t *tracer, p *pod) { t.watch(p, r, err) }) }
	}
	if r.Resource.Resource == leases {
		return apiserver.Fault{}, func(lease *object, err error) { n.trace(func(t *tracer, p *pod) { t.lease(p, r, lease, err) }) }
	}
	if laneOf(r.Resource) != "" {
		n.lab.gate.wait()
	}
	sent := time.Now()
	var step Step
	n.trace(func(t *tracer, p *pod) { step = t.send(p, r) })
	name, fault := n.lab.faultOf(r)
	return fault, func(result *object, err error) {
		n.trace(func(t *tracer, p *pod) {
			step.Duration, step.Name = time.Since(sent).Seconds(), name
			t.response(p, step, result, err)
		})
	}
}

// lease traces that the Lease is renewed or released.
func (t *tracer) lease(p *pod, r *apiserver.Request, lease *object, err error) {
	if err != nil || !r.IsWrite() {
		return
	}
	s := Step{Source: wire, Stop: "fault", Kind: "lease", Pod: p.name, What: "releases the Lease"}
	if holder, _ := nested(lease, "spec", "holderIdentity").(string); holder != "" {
		seconds, _ := nested(lease, "spec", "leaseDurationSeconds").(int64)
		s.What, s.Delay = "renews the Lease", float64(seconds)
	}
	t.emit(s)
}

// watch traces whether the API server accepts a watch.
func (t *tracer) watch(p *pod, r *apiserver.Request, err error) {
	s := watchStep(p, r)
	if err != nil {
		s.Kind, s.What, s.Why = "watchEnd", "the watch is not accepted", err.Error()
		t.emit(s)
		return
	}
	s.What = "watches from resourceVersion " + s.ResourceVersion
	if r.Query.Get("sendInitialEvents") == "true" {
		s.EventType, s.What, s.Code = "list", "lists and watches: the watch begins with all objects", codeWatchList
		p.lanes[s.Lane].listing, p.lanes[s.Lane].listed = true, map[string]bool{}
	}
	t.emit(s)
}

func watchStep(p *pod, r *apiserver.Request) Step {
	return Step{Source: wire, Stop: "reflector", Kind: "watchStart", Pod: p.name, Lane: laneOf(r.Resource), Verb: "watch", Resource: r.Resource.Resource,
		ResourceVersion: r.Query.Get("resourceVersion"), Raw: r.Query.Encode(), Code: codeWatch}
}

// Lag implements apiserver.Network.
func (n *network) Lag(*apiserver.Request, watch.EventType, *object) time.Duration { return 0 }

// Event implements apiserver.Network.
func (n *network) Event(r *apiserver.Request, eventType watch.EventType, object *object) {
	if eventType != watch.Error {
		n.lab.gate.wait()
	}
	n.trace(func(t *tracer, p *pod) { t.event(p, r, eventType, object) })
}

// event traces an event of a watch, or why the watch will end.
func (t *tracer) event(p *pod, r *apiserver.Request, eventType watch.EventType, object *object) {
	lane := laneOf(r.Resource)
	if eventType == watch.Error {
		p.lanes[lane].failed, _ = nested(object, "message").(string)
		return
	}
	t.watchEvent(p, lane, event{describe(object), string(eventType)})
}

// Ended implements apiserver.Network.
func (n *network) Ended(r *apiserver.Request) {
	n.trace(func(t *tracer, p *pod) { t.watchEnd(p, r) })
}

// watchEnd traces the end of a watch.
func (t *tracer) watchEnd(p *pod, r *apiserver.Request) {
	s := watchStep(p, r)
	s.Kind, s.What, s.Why = "watchEnd", "the watch has ended", p.lanes[s.Lane].failed
	p.lanes[s.Lane].failed = ""
	t.emit(s)
}

// send traces a request, and returns what its response has as well.
func (t *tracer) send(p *pod, r *apiserver.Request) Step {
	resource := strings.TrimSuffix(r.Resource.Resource+"/"+r.Subresource, "/")
	step := Step{Source: wire, Verb: r.Verb, Resource: resource, Object: objectName(r.Namespace, r.Name), Lane: laneOf(r.Resource)}
	s := t.request(p, step, r.Body)
	step.Request, step.Key, step.Object = s.Seq, s.Key, s.Object
	return step
}

// request traces a request, and returns its step.
func (t *tracer) request(p *pod, s Step, body []byte) Step {
	s.Stop, s.Kind, s.Pod, s.Code = "request", "request", p.name, codeRequest
	s.What = s.Verb + " " + s.Resource
	var sent object
	if len(body) > 0 && utiljson.Unmarshal(body, &sent.Object) == nil {
		d := describe(&sent)
		s.Key = d.owner
		s.Raw = d.raw
		if d.raw == "" {
			s.Raw = string(body)
		}
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
func (t *tracer) response(p *pod, s Step, result *object, err error) {
	s.Stop, s.Kind, s.Pod, s.Code = "response", "response", p.name, codeRequest
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		s.Status, s.Why = int(status.Status().Code), status.Status().Message
	case err != nil:
		s.Kind, s.What = "noResponse", "no response to "+s.Verb+" "+s.Resource
		t.emit(s)
		return
	case s.Verb == "create":
		s.Status = http.StatusCreated
	default:
		s.Status = http.StatusOK
	}
	s.What = http.StatusText(s.Status)
	if err == nil && s.Verb != "list" && s.Verb != "delete" {
		d := describe(result)
		s.Object, s.ResourceVersion, s.Raw = d.object, d.resourceVersion, d.raw
		if d.owner != "" {
			s.Key = d.owner
		}
		if s.Lane == deployments && d.owner != "" {
			t.owners[s.Object] = d.owner
		}
	}
	s.Key = t.keyOf(s)
	t.emit(s)
}
