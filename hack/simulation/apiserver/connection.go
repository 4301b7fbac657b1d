// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// ErrConnection is what a client sees of a connection that breaks.
var ErrConnection = errors.New("connection reset by peer")

// Fault is what happens to a request. The zero value does nothing. A watch that is Lost does not begin, and has no other response.
type Fault struct {
	Delay time.Duration // how much longer the request takes
	// Err is what the client gets instead: the request is not applied. It is an API status (StatusError, or one of
	// k8s.io/apimachinery/pkg/api/errors), or ErrConnection.
	Err        error
	Applied    func()        // If it is not nil, it is called when the request has been applied, and the client does not know that yet.
	AfterDelay time.Duration // how much longer the response takes
	Lost       bool          // The connection breaks before the response, after the request was applied.
}

// Network is what a connection goes through: it decides about faults, and is told what the client sees. Its methods are called by many
// goroutines at once. They may wait, so that what they are called for waits.
type Network interface {
	// Request is called with each request. responded is called with the response: an object, a list, or nothing for a watch that begins. An
	// error that is no API status is that of a connection that breaks.
	Request(r *Request) (f Fault, responded func(result *Object, err error))
	// Lag returns by how much an event of a watch lags behind. For the initial events of a watch, taken together, o is nil. The events of a
	// watch keep their order.
	Lag(watch *Request, event watch.EventType, o *Object) time.Duration
	// Event is called before the client gets an event of a watch, and Ended when a watch has ended. The object of an error is a Status.
	Event(watch *Request, event watch.EventType, o *Object)
	Ended(watch *Request)
}

// Reliable is a Network without faults.
type Reliable struct{}

// Request implements Network.
func (Reliable) Request(*Request) (Fault, func(*Object, error)) {
	return Fault{}, func(*Object, error) {}
}

// Lag implements Network.
func (Reliable) Lag(*Request, watch.EventType, *Object) time.Duration { return 0 }

// Event implements Network.
func (Reliable) Event(*Request, watch.EventType, *Object) {}

// Ended implements Network.
func (Reliable) Ended(*Request) {}

// AllResources stands for all resources.
var AllResources = schema.GroupResource{Resource: "*"}

// Connection is the connection of a client, such as an instance of the program under test, to the API server. It is an http.RoundTripper
// without sockets, since they do not let virtual time pass.
type Connection struct {
	server  *Server
	client  string
	network Network

	lock    sync.Mutex
	broken  bool
	held    map[schema.GroupResource]time.Time // until when the watches of a resource, or all requests and watches, stand still
	changed chan struct{}                      // It is closed when held changes.
	refused map[schema.GroupResource]time.Time // until when no watch of a resource is accepted
	watches map[*Request]context.CancelFunc
	stale   map[schema.GroupResource]int64 // the resourceVersion that the watch cache of a resource has
}

// Connect returns a connection of a client of that name.
func (s *Server) Connect(client string, network Network) *Connection {
	return &Connection{
		server: s, client: client, network: network, held: map[schema.GroupResource]time.Time{}, changed: make(chan struct{}),
		refused: map[schema.GroupResource]time.Time{}, watches: map[*Request]context.CancelFunc{}, stale: map[schema.GroupResource]int64{},
	}
}

// Config returns the configuration of clients that use the connection. Their requests are not limited. The field manager of all connections
// is "program", as it is the same one for all instances of a program, unless their requests name another one.
func (c *Connection) Config() *rest.Config {
	config := &rest.Config{Host: "http://apiserver.simulated", Transport: c, QPS: -1, UserAgent: "program/" + c.client}
	config.ContentType = "application/json"
	return config
}

// Break makes all connections break, those of later requests too: the client was killed.
func (c *Connection) Break() {
	c.lock.Lock()
	c.broken = true
	c.lock.Unlock()
	c.CutWatches(AllResources, 0)
}

// Hold makes the watches of a resource, or all requests and watches, stand still for a while.
func (c *Connection) Hold(resource schema.GroupResource, duration time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.held[resource] = time.Now().Add(duration)
	c.changes()
}

// changes wakes what waits. The lock is held.
func (c *Connection) changes() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// CutWatches ends the watches of a resource, or all, and lets none begin for a while.
func (c *Connection) CutWatches(resource schema.GroupResource, duration time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.refused[resource] = time.Now().Add(duration)
	for r, end := range c.watches {
		if resource == AllResources || resource == r.Resource {
			end()
		}
	}
}

// Stale makes the next list of a resource have the state of a resourceVersion, as if a stale watch cache had served it, if it asks for
// resourceVersion 0. Until there is a list, the API server refuses WatchLists of the resource, as without the feature gate: their initial events
// are never stale.
func (c *Connection) Stale(resource schema.GroupResource, version int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.stale[resource] = version
}

// Heal ends all that Hold and CutWatches have begun.
func (c *Connection) Heal() {
	c.lock.Lock()
	defer c.lock.Unlock()
	clear(c.held)
	clear(c.refused)
	c.changes()
}

func (c *Connection) isBroken() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.broken
}

const accessReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// allowed answers a client that asks whether it may do something: everybody may do everything.
var allowed = authorizationv1.SelfSubjectAccessReview{
	TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
	Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
}

// latency is how long a request, and its response, takes at least.
const latency = time.Millisecond

// RoundTrip implements http.RoundTripper. Discovery always answers, at once: some clients hold a mutex meanwhile, and virtual time does not
// pass while a goroutine waits for a mutex. For that reason, requests that take no time do not say when to try again, either.
func (c *Connection) RoundTrip(httpRequest *http.Request) (*http.Response, error) {
	if response := c.server.discover(httpRequest); response != nil {
		return response, nil
	}
	if c.isBroken() {
		return nil, ErrConnection
	}
	if httpRequest.Method == http.MethodPost && httpRequest.URL.Path == accessReviews {
		return respond(httpRequest, http.StatusCreated, encode(allowed)), nil
	}
	r, err := c.server.parse(httpRequest, c.client)
	if err != nil {
		c.server.refused(r, err)
		return respondError(httpRequest, err)
	}
	if r.Resource == pods {
		c.server.controllers.createPods()
	}
	fault, responded := c.network.Request(r)
	result, stream, err := c.roundTrip(httpRequest.Context(), r, fault)
	responded(result, err)
	switch {
	case err != nil:
		response, err := respondError(httpRequest, err)
		if response != nil && !takesTime(r) {
			response.Header.Del("Retry-After")
		}
		return response, err
	case stream != nil:
		response := respond(httpRequest, http.StatusOK, nil)
		response.Body = stream()
		return response, nil
	case r.created:
		return respond(httpRequest, http.StatusCreated, c.server.encodeFor(r, result)), nil
	}
	return respond(httpRequest, http.StatusOK, c.server.encodeFor(r, result)), nil
}

// roundTrip returns an object, a list, or what begins to stream the events of a watch.
func (c *Connection) roundTrip(ctx context.Context, r *Request, f Fault) (result *Object, stream func() io.ReadCloser, err error) {
	if err := c.travel(ctx, r, latency+f.Delay); err != nil {
		return nil, nil, err
	}
	switch {
	case c.isBroken(), r.Verb == "watch" && f.Lost:
		return nil, nil, ErrConnection
	case f.Err != nil:
		return nil, nil, f.Err
	case r.Verb == "watch":
		stream, err := c.watch(ctx, r)
		return nil, stream, err
	}
	result, err = c.server.do(r, c.takeStale(r))
	if f.Applied != nil {
		f.Applied()
	}
	if err := c.travel(ctx, r, latency+f.AfterDelay); err != nil {
		return nil, nil, err
	}
	if f.Lost || c.isBroken() {
		return nil, nil, ErrConnection
	}
	return result, nil, err
}

// takeStale returns the resourceVersion of the state that a list has because it is stale, or 0. No later list is.
func (c *Connection) takeStale(r *Request) int64 {
	if r.Verb != "list" {
		return 0
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	stale := c.stale[r.Resource]
	delete(c.stale, r.Resource)
	if r.Query.Get("resourceVersion") != "0" {
		return 0
	}
	return stale
}

// takesTime reports whether a request takes time, and is subject to Fault.Delay and Hold. Those for events.k8s.io are answered at once: the
// EventBroadcaster of client-go/tools/events holds a mutex meanwhile.
func takesTime(r *Request) bool { return r.Resource.Group != eventsv1.GroupName }

// travel waits for as long as a request or its response takes.
func (c *Connection) travel(ctx context.Context, r *Request, duration time.Duration) error {
	if !takesTime(r) {
		return ctx.Err()
	}
	return c.wait(ctx, duration, AllResources)
}

// wait waits for a time, and longer while the watches of a resource, or all, are held. It returns an error if the request ends meanwhile.
func (c *Connection) wait(ctx context.Context, duration time.Duration, resource schema.GroupResource) error {
	for due := time.Now().Add(duration); ; {
		c.lock.Lock()
		until, changed := slices.MaxFunc([]time.Time{due, c.held[AllResources], c.held[resource]}, time.Time.Compare), c.changed
		c.lock.Unlock()
		if !until.After(time.Now()) {
			return ctx.Err()
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func respond(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1, Request: r,
	}
}

// respondError responds with an API status, or breaks the connection with any other error.
func respondError(r *http.Request, err error) (*http.Response, error) {
	if _, isStatus := err.(apierrors.APIStatus); !isStatus {
		return nil, err
	}
	status := statusOf(err)
	response := respond(r, int(status.Code), encode(status))
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	return response, nil
}

func statusOf(err error) metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}
