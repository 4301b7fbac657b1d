// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// errConnection is what a client sees of a connection that breaks.
var errConnection = errors.New("connection reset by peer")

// fault is what happens to a request.
type fault struct {
	what     string        // It is empty if nothing happens.
	response error         // The API server responds with it, and the request is not applied.
	broken   bool          // The connection breaks before the request is applied.
	lost     bool          // The connection breaks after the request was applied.
	kill     bool          // The client is killed at that moment as well.
	before   time.Duration // how much longer the request takes
	after    time.Duration // how much longer the response takes
}

// network is what happens on the way between a client and the API server. A nil function does nothing.
type network struct {
	fault     func(id string, r *request) fault
	lag       func(id string) time.Duration
	sent      func(r *request)
	responded func(r *request, result *object, err error)
	delivered func(eventType watch.EventType, resource string, o *object)
	ended     func(r *request) // of a watch
	kill      func()
}

// transport is the connection of a client to the API server.
type transport struct {
	server  *server
	client  string
	network network

	lock      sync.Mutex
	counts    map[string]int // of requests and of events, for their ids
	down      bool           // The client was killed.
	until     map[string]time.Time
	refused   map[string]time.Time
	watches   map[string]chan struct{} // It is closed to end the watches of a resource.
	staleness int64                    // By how many changes the first list of each resource is older than the newest state.
	listed    map[string]bool
}

func newTransport(server *server, client string, n network) *transport {
	return &transport{
		server: server, client: client, network: n, counts: map[string]int{}, until: map[string]time.Time{},
		refused: map[string]time.Time{}, watches: map[string]chan struct{}{}, listed: map[string]bool{},
	}
}

// config returns the configuration of clientsets that use the transport.
func (t *transport) config() *rest.Config {
	config := &rest.Config{Host: "http://simulation", Transport: t, QPS: -1}
	config.ContentType = "application/json"
	return config
}

// latency is how long a request, and its response, takes at least.
const latency = time.Millisecond

// all stands for all resources.
const all = ""

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(httpRequest *http.Request) (*http.Response, error) {
	r, err := t.parse(httpRequest)
	if err != nil {
		return nil, err
	}
	if t.isDown() {
		return nil, errConnection
	}
	if t.network.sent != nil {
		t.network.sent(r)
	}
	result, err := t.roundTrip(httpRequest, r)
	if t.network.responded != nil {
		object, _ := result.(*object)
		t.network.responded(r, object, err)
	}
	if err == nil {
		switch result := result.(type) {
		case *http.Response:
			return result, nil
		case *object:
			code := http.StatusOK
			if r.verb == "create" {
				code = http.StatusCreated
			}
			return respond(httpRequest, code, encode(result.Object)), nil
		}
	}
	if _, ok := err.(apierrors.APIStatus); ok {
		return respondError(httpRequest, err), nil
	}
	return nil, err
}

// roundTrip returns an object, a list or, for a watch, a response.
func (t *transport) roundTrip(httpRequest *http.Request, r *request) (any, error) {
	ctx := httpRequest.Context()
	var f fault
	if t.network.fault != nil && r.resource != "" {
		f = t.network.fault(t.id(r.verb+" "+strings.TrimSuffix(r.target()+" "+r.subresource, " ")), r)
	}
	if err := t.pause(ctx, nil, latency+f.before, all); err != nil {
		return nil, err
	}
	if f.kill && !f.lost {
		t.network.kill()
	}
	switch {
	case f.broken, t.isDown():
		return nil, errConnection
	case f.response != nil:
		return nil, f.response
	case r.resource == "":
		return respond(httpRequest, http.StatusOK, []byte(`{"major":"1","minor":"37"}`)), nil
	case r.verb == "watch":
		return t.watch(httpRequest, r)
	}
	result, err := t.server.do(r)
	if f.kill && f.lost {
		t.network.kill()
	}
	if err := t.pause(ctx, nil, latency+f.after, all); err != nil {
		return nil, err
	}
	if f.lost || t.isDown() {
		return nil, errConnection
	}
	return result, err
}

// id returns the name of the next request or event of a kind. It does not depend on those of other kinds.
func (t *transport) id(kind string) string {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts[kind]++
	return fmt.Sprintf("%s %s #%d", t.client, kind, t.counts[kind])
}

// kill makes all connections break, those of later requests too.
func (t *transport) kill() {
	t.lock.Lock()
	t.down = true
	t.lock.Unlock()
	t.cut(all, 0)
}

func (t *transport) isDown() bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.down
}

// hold makes the watches of a resource, or everything, stand still for a while.
func (t *transport) hold(resource string, duration time.Duration) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.until[resource] = time.Now().Add(duration)
}

// cut ends the watches of a resource, or all, and refuses to watch that resource for a while.
func (t *transport) cut(resource string, duration time.Duration) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.refused[resource] = time.Now().Add(duration)
	for watched, ended := range t.watches {
		if resource == all || resource == watched {
			close(ended)
			delete(t.watches, watched)
		}
	}
}

// reconnect ends all that hold and cut have begun.
func (t *transport) reconnect() {
	t.lock.Lock()
	defer t.lock.Unlock()
	clear(t.until)
	clear(t.refused)
}

// pause waits for a time, and longer while the client is frozen or the watches of a resource are held. It returns an error if the request
// or the watch ends meanwhile.
func (t *transport) pause(ctx context.Context, ended <-chan struct{}, duration time.Duration, resource string) error {
	for due := time.Now().Add(duration); ; {
		t.lock.Lock()
		until := due
		for _, held := range []time.Time{t.until[all], t.until[resource]} {
			if held.After(until) {
				until = held
			}
		}
		t.lock.Unlock()
		if !until.After(time.Now()) {
			return nil
		}
		timer := time.NewTimer(min(time.Until(until), time.Second)) // It may be released earlier.
		select {
		case <-timer.C:
		case <-ended:
			timer.Stop()
			return errConnection
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// parse returns the request behind a HTTP request. One without a resource asks for the version.
func (t *transport) parse(httpRequest *http.Request) (*request, error) {
	r := &request{client: t.client, sent: time.Now()}
	path := strings.Split(strings.Trim(httpRequest.URL.Path, "/"), "/")
	switch {
	case path[0] == "version":
		return r, nil
	case path[0] == "api" && len(path) > 2:
		path = path[2:]
	case path[0] == "apis" && len(path) > 3:
		path = path[3:]
	default:
		return nil, fmt.Errorf("unexpected path %q", httpRequest.URL.Path)
	}
	if path[0] == "namespaces" && len(path) > 2 {
		r.namespace, path = path[1], path[2:]
	}
	path = append(path, "", "")
	r.resource, r.name, r.subresource, r.query = path[0], path[1], path[2], httpRequest.URL.Query()
	if _, ok := resources[r.resource]; !ok {
		return nil, fmt.Errorf("unexpected resource %q", r.resource)
	}
	r.verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[httpRequest.Method]
	switch {
	case r.verb == "get" && r.name == "" && r.query.Get("watch") != "":
		r.verb = "watch"
	case r.verb == "get" && r.name == "":
		r.verb = "list"
	}
	if httpRequest.Body == nil {
		return r, nil
	}
	defer httpRequest.Body.Close()
	var err error
	r.body, err = io.ReadAll(httpRequest.Body)
	if r.verb == "create" && err == nil {
		r.name = r.object().GetName()
	}
	return r, err
}

// watch responds with a stream of events.
func (t *transport) watch(httpRequest *http.Request, r *request) (*http.Response, error) {
	t.lock.Lock()
	refused, isFirst := t.refused[r.resource].After(time.Now()), !t.listed[r.resource]
	t.lock.Unlock()
	if refused {
		return nil, errConnection
	}
	staleness := int64(0)
	if isFirst {
		staleness = t.staleness
	}
	initial, next, err := t.server.startWatch(r, staleness)
	if apierrors.IsResourceExpired(err) {
		return respond(httpRequest, http.StatusOK, encodeEvent(watch.Error, encode(statusOf(err)))), nil
	}
	if err != nil {
		return nil, err
	}
	t.lock.Lock()
	t.listed[r.resource] = true
	ended := t.watches[r.resource]
	if ended == nil {
		ended = make(chan struct{})
		t.watches[r.resource] = ended
	}
	t.lock.Unlock()
	seconds, err := strconv.Atoi(r.query.Get("timeoutSeconds"))
	if err != nil {
		seconds = 300
	}
	ctx, cancel := context.WithTimeout(httpRequest.Context(), time.Duration(seconds)*time.Second)
	reader, writer := io.Pipe()
	go func() {
		defer cancel()
		defer writer.Close()
		if t.network.ended != nil {
			defer t.network.ended(r)
		}
		if len(initial) > 0 && t.pause(ctx, ended, t.lag("list of "+r.resource), r.resource) != nil {
			return
		}
		for _, c := range initial {
			if !t.deliver(writer, r.resource, c) {
				return
			}
		}
		for {
			batch, last, changed, err := t.server.changesAfter(next, r)
			if err != nil {
				return
			}
			next = last
			for _, c := range batch {
				lag := t.lag(fmt.Sprintf("%s event of %s", c.eventType, c.request.target()))
				if t.pause(ctx, ended, lag, r.resource) != nil || !t.deliver(writer, r.resource, c) {
					return
				}
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ended:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	response := respond(httpRequest, http.StatusOK, nil)
	response.ContentLength, response.Body = -1, reader
	return response, nil
}

// lag returns by how much the next event of a kind lags behind.
func (t *transport) lag(event string) time.Duration {
	if t.network.lag == nil {
		return 0
	}
	return t.network.lag(t.id(event))
}

// deliver writes an event, and reports whether the client still reads.
func (t *transport) deliver(writer io.Writer, resource string, c change) bool {
	if t.network.delivered != nil {
		t.network.delivered(c.eventType, resource, c.new)
	}
	_, err := writer.Write(append(encodeEvent(c.eventType, c.raw), '\n'))
	return err == nil
}

// startWatch returns what a watch begins with, and after which resourceVersion it goes on. A list of initial events is older than the newest
// state by a number of changes, as one from the cache of an API server may be.
func (s *server) startWatch(r *request, staleness int64) (initial []change, next int64, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if err := s.rejection(r); err != nil {
		return nil, 0, err
	}
	if r.query.Get("sendInitialEvents") == "true" {
		next := max(s.resourceVersion-staleness, s.compacted)
		for _, o := range sorted(s.at(r.resource, next), r.namespace) {
			initial = append(initial, change{eventType: watch.Added, new: o, raw: encode(o.Object)})
		}
		bookmark := &object{Object: map[string]any{}}
		bookmark.SetGroupVersionKind(resources[r.resource].kind)
		bookmark.SetResourceVersion(strconv.FormatInt(next, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		return append(initial, change{eventType: watch.Bookmark, new: bookmark, raw: encode(bookmark.Object)}), next, nil
	}
	next, err = strconv.ParseInt(r.query.Get("resourceVersion"), 10, 64)
	if err != nil || next < s.compacted {
		return nil, 0, apierrors.NewResourceExpired("too old resource version")
	}
	return nil, next, nil
}

// changesAfter returns the changes that a watch sees after a resourceVersion, the one that it has seen then, and a channel that is closed
// when there are more.
func (s *server) changesAfter(resourceVersion int64, r *request) (changes []change, last int64, changed chan struct{}, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	begin := s.resourceVersion - int64(len(s.history)) // The history has every later resourceVersion once.
	if resourceVersion < begin {
		return nil, 0, nil, apierrors.NewResourceExpired("too old resource version")
	}
	for _, c := range s.history[resourceVersion-begin:] {
		if c.request.resource == r.resource && (r.namespace == "" || r.namespace == c.new.GetNamespace()) {
			changes = append(changes, c)
		}
	}
	return changes, s.resourceVersion, s.changed, nil
}

func encodeEvent(eventType watch.EventType, raw []byte) []byte {
	return encode(metav1.WatchEvent{Type: string(eventType), Object: runtime.RawExtension{Raw: raw}})
}

func respond(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// statusOf returns the Status that the API server responds with instead of an error.
func statusOf(err error) metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

func respondError(r *http.Request, err error) *http.Response {
	status := statusOf(err)
	response := respond(r, int(status.Code), encode(status))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response
}
