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
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// errConnection is what a client sees of a connection that breaks.
var errConnection = errors.New("connection reset by peer")

// Fault is what happens to a request. The zero value does nothing.
type Fault struct {
	Response error         // The API server responds with it, and the request is not applied.
	Lost     bool          // The connection breaks after the request was applied.
	Delay    time.Duration // how much longer the request takes
	broken   bool          // The connection breaks before the request is applied.
	kill     bool          // The client is killed at that moment as well.
	after    time.Duration // how much longer the response takes
}

// Observer observes a connection. Its methods may wait, so that what they are called for waits.
type Observer interface {
	// Request is called with a request that arrives. responded is called with the response: an object, a list, or nothing for a watch that
	// the API server accepts. An error that is no API status is that of a connection that breaks.
	Request(r *Request) (f Fault, responded func(result *object, err error))
	// Lag returns by how much an event lags behind.
	Lag(event string) time.Duration
	// Event is called before an event of a watch is sent, and Ended when a watch has ended.
	Event(resource string, eventType watch.EventType, o *object)
	Ended(r *Request)
}

// unobserved is the Observer of a connection to which nothing happens.
type unobserved struct{}

func (unobserved) Request(*Request) (Fault, func(*object, error)) {
	return Fault{}, func(*object, error) {}
}
func (unobserved) Lag(string) time.Duration               { return 0 }
func (unobserved) Event(string, watch.EventType, *object) {}
func (unobserved) Ended(*Request)                         {}

// Connection is the connection of a client to the API server. It is an http.RoundTripper.
type Connection struct {
	server   *server
	client   string
	observer Observer
	down     atomic.Bool // The client was killed.

	lock      sync.Mutex
	held      map[string]time.Time // until when the watches of a resource, or all requests and watches, stand still
	refused   map[string]time.Time // until when no watch of a resource is accepted
	watches   map[*Request]context.CancelFunc
	staleness map[string]int64 // By how many changes the first list of a resource is older than the newest state.
}

func newConnection(s *server, client string, o Observer) *Connection {
	return &Connection{
		server: s, client: client, observer: o, held: map[string]time.Time{}, refused: map[string]time.Time{},
		watches: map[*Request]context.CancelFunc{},
	}
}

// config returns the configuration of clientsets that use the connection.
func (c *Connection) config() *rest.Config {
	config := &rest.Config{Host: "http://simulation", Transport: c, QPS: -1}
	config.ContentType = "application/json"
	return config
}

// latency is how long a request, and its response, takes at least.
const latency = time.Millisecond

// all stands for all resources.
const all = ""

// RoundTrip implements http.RoundTripper.
func (c *Connection) RoundTrip(httpRequest *http.Request) (*http.Response, error) {
	r, err := c.parse(httpRequest)
	switch {
	case err != nil:
		return nil, err
	case c.down.Load():
		return nil, errConnection
	case r.Resource == "version":
		return respond(httpRequest, http.StatusOK, encoded(map[string]string{"major": "1", "minor": "37"})), nil
	}
	f, responded := c.observer.Request(r)
	result, stream, err := c.roundTrip(httpRequest.Context(), r, f)
	responded(result, err)
	switch _, isStatus := err.(apierrors.APIStatus); {
	case isStatus:
		status := statusOf(err)
		response := respond(httpRequest, int(status.Code), encoded(status))
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			response.Header.Set("Retry-After", strconv.Itoa(seconds))
		}
		return response, nil
	case err != nil:
		return nil, err
	case stream != nil:
		return respond(httpRequest, http.StatusOK, stream()), nil
	case r.Verb == "create":
		return respond(httpRequest, http.StatusCreated, encoded(result.Object)), nil
	}
	return respond(httpRequest, http.StatusOK, encoded(result.Object)), nil
}

// roundTrip returns an object, a list, or what begins to stream the events of a watch.
func (c *Connection) roundTrip(ctx context.Context, r *Request, f Fault) (result *object, stream func() io.ReadCloser, err error) {
	if err := c.pause(ctx, latency+f.Delay, all); err != nil {
		return nil, nil, err
	}
	switch {
	case f.broken || c.down.Load():
		return nil, nil, errConnection
	case f.Response != nil:
		return nil, nil, f.Response
	case r.Verb == "watch":
		stream, err := c.watch(ctx, r)
		return nil, stream, err
	}
	result, err = c.server.do(r)
	if f.kill {
		c.Break()
	}
	if err := c.pause(ctx, latency+f.after, all); err != nil {
		return nil, nil, err
	}
	if f.Lost || c.down.Load() {
		return nil, nil, errConnection
	}
	return result, nil, err
}

// Break makes all connections break, those of later requests too.
func (c *Connection) Break() {
	c.down.Store(true)
	c.CutWatch(all, 0)
}

// HoldWatch makes the watches of a resource, or everything, stand still for a while.
func (c *Connection) HoldWatch(resource string, duration time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.held[resource] = time.Now().Add(duration)
}

// CutWatch ends the watches of a resource, or all, and refuses to watch that resource for a while.
func (c *Connection) CutWatch(resource string, duration time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.refused[resource] = time.Now().Add(duration)
	for r, end := range c.watches {
		if resource == all || resource == r.Resource {
			end()
		}
	}
}

// Heal ends all that HoldWatch and CutWatch have begun.
func (c *Connection) Heal() {
	c.lock.Lock()
	defer c.lock.Unlock()
	clear(c.held)
	clear(c.refused)
}

// pause waits for a time, and longer while the client is frozen or the watches of a resource are held. It returns an error if the request
// or the watch ends meanwhile.
func (c *Connection) pause(ctx context.Context, duration time.Duration, resource string) error {
	for due := time.Now().Add(duration); ; {
		c.lock.Lock()
		until := slices.MaxFunc([]time.Time{due, c.held[all], c.held[resource]}, time.Time.Compare)
		c.lock.Unlock()
		if !until.After(time.Now()) {
			return ctx.Err()
		}
		select {
		case <-time.After(min(time.Until(until), time.Second)): // It may be released earlier.
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// path is that of an object or of a list, with a namespace or without, or that of the version.
var path = regexp.MustCompile(`^(?:/api|/apis/[^/]+)?(?:/v[0-9][^/]*(?:/namespaces/([^/]+))?)?/([^/]+)/?([^/]*)/?([^/]*)$`)

// parse returns the request behind an HTTP request.
func (c *Connection) parse(httpRequest *http.Request) (*Request, error) {
	match := path.FindStringSubmatch(httpRequest.URL.Path)
	if match == nil {
		return nil, fmt.Errorf("unexpected path %q", httpRequest.URL.Path)
	}
	r := &Request{
		client: c.client, sent: time.Now(), Namespace: match[1], Resource: match[2], Name: match[3], Subresource: match[4],
		Query: httpRequest.URL.Query(),
		Verb: map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[httpRequest.Method],
	}
	if _, ok := resources[r.Resource]; !ok && r.Resource != "version" {
		return nil, fmt.Errorf("unexpected resource %q", r.Resource)
	}
	switch {
	case r.Verb == "get" && r.Name == "" && r.Query.Get("watch") != "":
		r.Verb = "watch"
	case r.Verb == "get" && r.Name == "":
		r.Verb = "list"
	}
	if httpRequest.Body == nil {
		return r, nil
	}
	defer httpRequest.Body.Close()
	var err error
	r.Body, err = io.ReadAll(httpRequest.Body)
	if r.Verb == "create" && err == nil {
		r.Name = r.object().GetName()
	}
	return r, err
}

// watch returns what begins to stream events, once the observer has been told that the watch is accepted.
func (c *Connection) watch(ctx context.Context, r *Request) (stream func() io.ReadCloser, err error) {
	c.lock.Lock()
	refused, staleness := c.refused[r.Resource].After(time.Now()), c.staleness[r.Resource]
	c.lock.Unlock()
	if refused {
		return nil, errConnection
	}
	initial, next, err := c.server.startWatch(r, staleness)
	if apierrors.IsResourceExpired(err) {
		expired := encodeEvent(watch.Error, encode(statusOf(err)))
		return func() io.ReadCloser { return io.NopCloser(bytes.NewReader(expired)) }, nil
	}
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.Atoi(r.Query.Get("timeoutSeconds"))
	if err != nil {
		seconds = 300
	}
	ctx, end := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	c.lock.Lock()
	delete(c.staleness, r.Resource)
	c.watches[r] = end
	c.lock.Unlock()
	return func() io.ReadCloser {
		reader, writer := io.Pipe()
		go func() {
			c.send(ctx, writer, r, initial, next)
			end()
			c.lock.Lock()
			delete(c.watches, r)
			c.lock.Unlock()
			c.observer.Ended(r)
			writer.Close()
		}()
		return reader
	}, nil
}

// send sends the events of a watch until it ends.
func (c *Connection) send(ctx context.Context, writer io.Writer, r *Request, initial []change, next int64) {
	if len(initial) > 0 && c.pause(ctx, c.observer.Lag("list of "+r.Resource), r.Resource) != nil {
		return
	}
	for _, event := range initial {
		if !c.deliver(writer, r.Resource, event) {
			return
		}
	}
	for {
		batch, last, changed, err := c.server.changesAfter(next, r)
		if err != nil {
			return
		}
		next = last
		for _, event := range batch {
			lag := c.observer.Lag(fmt.Sprintf("%s event of %s", event.eventType, event.request.target()))
			if c.pause(ctx, lag, r.Resource) != nil || !c.deliver(writer, r.Resource, event) {
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// deliver writes an event, and reports whether the client still reads.
func (c *Connection) deliver(writer io.Writer, resource string, event change) bool {
	c.observer.Event(resource, event.eventType, event.new)
	_, err := writer.Write(append(encodeEvent(event.eventType, event.raw), '\n'))
	return err == nil
}

// startWatch returns what a watch begins with, and after which resourceVersion it goes on. A list of initial events is older than the newest
// state by a number of changes, as one from the cache of an API server may be.
func (s *server) startWatch(r *Request, staleness int64) (initial []change, next int64, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if err := s.rejection(r); err != nil {
		return nil, 0, err
	}
	if r.Query.Get("sendInitialEvents") == "true" {
		next := max(s.resourceVersion-staleness, s.compacted)
		for _, o := range sorted(s.at(r.Resource, next), r.Namespace) {
			initial = append(initial, change{eventType: watch.Added, new: o, raw: encode(o.Object)})
		}
		bookmark := &object{Object: map[string]any{}}
		bookmark.SetGroupVersionKind(resources[r.Resource].kind)
		bookmark.SetResourceVersion(strconv.FormatInt(next, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		return append(initial, change{eventType: watch.Bookmark, new: bookmark, raw: encode(bookmark.Object)}), next, nil
	}
	next, err = strconv.ParseInt(r.Query.Get("resourceVersion"), 10, 64)
	if err != nil || next < s.compacted {
		return nil, 0, apierrors.NewResourceExpired("too old resource version")
	}
	return nil, next, nil
}

// changesAfter returns the changes that a watch sees after a resourceVersion, the one that it has seen then, and a channel that is closed
// when there are more.
func (s *server) changesAfter(resourceVersion int64, r *Request) (changes []change, last int64, changed chan struct{}, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	begin := s.resourceVersion - int64(len(s.history)) // The history has every later resourceVersion once.
	if resourceVersion < begin {
		return nil, 0, nil, apierrors.NewResourceExpired("too old resource version")
	}
	for _, c := range s.history[resourceVersion-begin:] {
		if c.request.Resource == r.Resource && (r.Namespace == "" || r.Namespace == c.new.GetNamespace()) {
			changes = append(changes, c)
		}
	}
	return changes, s.resourceVersion, s.changed, nil
}

func encodeEvent(eventType watch.EventType, raw []byte) []byte {
	return encode(metav1.WatchEvent{Type: string(eventType), Object: runtime.RawExtension{Raw: raw}})
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

func encoded(value any) io.ReadCloser { return io.NopCloser(bytes.NewReader(encode(value))) }

// statusOf returns the Status that the API server responds with instead of an error.
func statusOf(err error) metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}
