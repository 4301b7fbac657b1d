// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// observed is a proxy with an observer in front of a server, and a client of the proxy.
type observed struct {
	t      *testing.T
	proxy  *faults.Proxy
	client *http.Client
	merger *merger
	tracer *tracer
	gate   *gate
}

func newObserved(t *testing.T, server http.HandlerFunc) *observed {
	upstream := httptest.NewTLSServer(server)
	t.Cleanup(upstream.Close)
	proxy, err := faults.Start(&rest.Config{Host: upstream.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	o := &observed{t: t, proxy: proxy, merger: newMerger(), tracer: newTracer(&sources{}), gate: newGate(func() {})}
	proxy.Wrap((&observer{pod: "a", merger: o.merger, gate: o.gate}).wrap)
	transport := rest.TLSClientConfig{Insecure: true}
	o.client, err = rest.HTTPClientFor(&rest.Config{Host: proxy.URL(), TLSClientConfig: transport})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// next returns the next step, other than those that are inferred.
func (o *observed) next() Step {
	o.t.Helper()
	for {
		for len(o.tracer.steps) > 0 {
			s := o.tracer.steps[0]
			o.tracer.steps = o.tracer.steps[1:]
			if s.Source != inferred && s.Kind != "stored" {
				return s
			}
		}
		select {
		case r := <-o.merger.records:
			r.trace(o.tracer)
		case <-time.After(10 * time.Second):
			o.t.Fatal("there are no more steps")
		}
	}
}

const deploymentsPath = "/apis/apps/v1/namespaces/default/deployments"

const deploymentJSON = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"a","resourceVersion":"7"}}`

func TestRequestIsObserved(t *testing.T) {
	o := newObserved(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != deploymentJSON {
			t.Errorf("the server got %s", body)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, deploymentJSON)
	})
	response, err := o.client.Post(o.proxy.URL()+deploymentsPath, "application/json", strings.NewReader(deploymentJSON))
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); string(body) != deploymentJSON || response.StatusCode != http.StatusCreated {
		t.Errorf("the client got %d %s", response.StatusCode, body)
	}
	request := o.next()
	if request.Kind != "request" || request.Verb != "create" || request.Resource != deployments || request.Object != "default/a" {
		t.Errorf("got %+v, want the request", request)
	}
	if s := o.next(); s.Kind != "response" || s.Status != http.StatusCreated || s.Request != request.Seq || s.ResourceVersion != "7" {
		t.Errorf("got %+v, want the response", s)
	}
}

// The response to a rejected creation has neither the object nor its key.
func TestRejectedCreationIsOfItsKey(t *testing.T) {
	o := newObserved(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })
	body := strings.Replace(deploymentJSON, `"name":"a"`,
		`"name":"a","ownerReferences":[{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"b","controller":true}]`, 1)
	if _, err := o.client.Post(o.proxy.URL()+deploymentsPath, "application/json", strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"request", "response"} {
		if s := o.next(); s.Kind != kind || s.Object != "default/a" || s.Key != "default/b" {
			t.Errorf("got %+v, want the %s", s, kind)
		}
	}
}

func TestInjectedFaultsAreObserved(t *testing.T) {
	o := newObserved(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, deploymentJSON) })
	injector := &injector{}
	o.proxy.SetRules(faults.Rule{Fault: injector.handle})
	injector.add(1, injection{"failWrite", faults.RejectWithMessage(http.StatusConflict, metav1.StatusReasonConflict, "injected")})
	injector.add(1, injection{"loseResponse", faults.DropResponse})
	if _, err := o.client.Get(o.proxy.URL() + deploymentsPath + "/a"); err != nil {
		t.Errorf("a fault was injected into a request that is no write: %v", err)
	}
	o.next()
	o.next()
	if _, err := o.client.Post(o.proxy.URL()+deploymentsPath, "application/json", nil); err != nil {
		t.Fatal(err)
	}
	o.next()
	if s := o.next(); s.Kind != "response" || s.Status != http.StatusConflict || s.Name != "failWrite" || s.Why != "injected" {
		t.Errorf("got %+v, want the rejection", s)
	}
	if response, err := o.client.Post(o.proxy.URL()+deploymentsPath, "application/json", nil); err == nil {
		t.Fatalf("got %v, want no response", response)
	}
	o.next()
	if s := o.next(); s.Kind != "noResponse" || s.Name != "loseResponse" {
		t.Errorf("got %+v, want that there is no response", s)
	}
}

func TestWatchIsObserved(t *testing.T) {
	written := make(chan string)
	o := newObserved(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		for {
			select {
			case text := <-written:
				io.WriteString(w, text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	response, err := o.client.Get(o.proxy.URL() + deploymentsPath + "?watch=1&resourceVersion=5")
	if err != nil {
		t.Fatal(err)
	}
	if s := o.next(); s.Kind != "watchStart" || s.Lane != deployments || s.ResourceVersion != "5" {
		t.Errorf("got %+v, want the start of the watch", s)
	}
	event := `{"type":"ADDED","object":` + deploymentJSON + "}\n"
	written <- event[:20]
	written <- event[20:] + event[:30]
	received := make([]byte, len(event))
	if _, err := io.ReadFull(response.Body, received); err != nil || string(received) != event {
		t.Errorf("the client got %q (%v)", received, err)
	}
	if s := o.next(); s.Kind != "watchEvent" || s.EventType != "ADDED" || s.Object != "default/a" || s.ResourceVersion != "7" {
		t.Errorf("got %+v, want the event", s)
	}

	o.gate.set(step, 0)
	written <- event[30:]
	if s := o.next(); s.Kind != "held" || s.Object != "default/a" || s.EventType != "ADDED" {
		t.Errorf("got %+v, want that the event waits", s)
	}
	for _, _, waiting := o.gate.state(); waiting == 0; _, _, waiting = o.gate.state() {
		time.Sleep(time.Millisecond) // The step precedes the wait.
	}
	o.gate.release(1)
	if s := o.next(); s.Kind != "released" {
		t.Errorf("got %+v, want that the event continues", s)
	}
	o.next()

	o.proxy.InterruptWatches(deployments)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != event {
		t.Errorf("the watch ended with %q and error %v, want none, as if the API server had ended it", rest, err)
	}
	if s := o.next(); s.Kind != "watchEnd" || s.Status != http.StatusOK {
		t.Errorf("got %+v, want the end of the watch", s)
	}
}

func TestProtobufEvents(t *testing.T) {
	object, err := (&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", ResourceVersion: "8"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, Raw: object}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope = append([]byte("k8s\x00"), envelope...)
	watched, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: envelope}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(watched))), watched...)
	for size := range len(frame) {
		if got := frameSize(frame[:size], true); got != 0 {
			t.Fatalf("the first %d of %d bytes are a frame of %d bytes", size, len(frame), got)
		}
	}
	if got := frameSize(append(bytes.Clone(frame), 1, 2, 3), true); got != len(frame) {
		t.Errorf("the frame has %d bytes, want %d", got, len(frame))
	}
	if e := decodeEvent(frame, true); e.eventType != "MODIFIED" || e.object != "default/a" || e.resourceVersion != "8" {
		t.Errorf("got %+v", e)
	}
}

func TestGate(t *testing.T) {
	g := newGate(func() {})
	wait := func() chan struct{} {
		continued := make(chan struct{})
		_, _, before := g.state()
		go func() {
			g.wait(t.Context())
			close(continued)
		}()
		for _, _, waiting := g.state(); waiting == before; _, _, waiting = g.state() {
			time.Sleep(time.Millisecond)
		}
		return continued
	}
	if g.closed() {
		t.Error("the gate is closed at first")
	}
	g.set(step, 0)
	first, second := wait(), wait()
	g.release(1)
	<-first
	select {
	case <-second:
		t.Error("the second one was released, too")
	default:
	}
	g.set(run, 0)
	<-second
	g.set(slow, time.Millisecond)
	g.wait(t.Context())
	g.set(step, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.wait(ctx)
	if _, _, waiting := g.state(); waiting != 0 {
		t.Errorf("%d wait after their request has ended", waiting)
	}
}
