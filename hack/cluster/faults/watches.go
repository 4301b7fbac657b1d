// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
)

// watches holds the state of all watches that pass through the proxy, by resource.
type watches struct {
	lock       sync.Mutex
	holds      map[string]hold
	running    map[*watch]bool
	recordings map[string]*recording // of the newest watch with initial events
	stale      map[string]*recording // replayed instead of a new watch
}

func newWatches() watches {
	return watches{
		holds: map[string]hold{}, running: map[*watch]bool{},
		recordings: map[string]*recording{}, stale: map[string]*recording{},
	}
}

// hold keeps the watches of a resource from beginning, and stale ones from ending, until it is closed.
type hold chan struct{}

type watch struct {
	resource string
	cancel   context.CancelFunc
}

// recording is what a watch with initial events has delivered so far.
type recording struct {
	contentType string
	events      []byte
}

// InterruptWatches ends the watches of the resources and blocks new ones until ResumeWatches.
func (p *Proxy) InterruptWatches(resources ...string) {
	p.watches.hold(resources)
	p.watches.end(resources)
}

// ResumeWatches ends InterruptWatches.
func (p *Proxy) ResumeWatches() { p.watches.releaseAll() }

// ServeStale serves the resources like an API server with a stale watch cache until ServeCurrent: new watches with initial events
// replay what the last one has delivered so far, and then deliver nothing.
func (p *Proxy) ServeStale(resources ...string) {
	p.watches.lock.Lock()
	defer p.watches.lock.Unlock()
	for _, resource := range resources {
		current := p.watches.recordings[resource]
		p.watches.stale[resource] = &recording{current.contentType, slices.Clone(current.events)}
		p.watches.holds[resource+staleSuffix] = make(hold)
	}
}

// ServeCurrent ends ServeStale and the stale watches, so that clients resume from the resource version that they have seen.
func (p *Proxy) ServeCurrent() {
	p.watches.lock.Lock()
	clear(p.watches.stale)
	p.watches.lock.Unlock()
	p.watches.releaseAll()
}

// staleSuffix marks the holds of stale watches.
const staleSuffix = " (stale)"

func (w *watches) hold(resources []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, resource := range resources {
		if w.holds[resource] == nil {
			w.holds[resource] = make(hold)
		}
	}
}

func (w *watches) releaseAll() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, hold := range w.holds {
		close(hold)
	}
	clear(w.holds)
}

func (w *watches) end(resources []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for watch := range w.running {
		if slices.Contains(resources, watch.resource) {
			watch.cancel()
		}
	}
}

// wait blocks while the watches of a resource are held.
func (w *watches) wait(ctx context.Context, resource string) {
	for {
		w.lock.Lock()
		hold := w.holds[resource]
		w.lock.Unlock()
		if hold == nil {
			return
		}
		select {
		case <-hold:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watches) serve(response http.ResponseWriter, r *http.Request, resource string, next http.Handler) {
	initialEvents := r.URL.Query().Get("sendInitialEvents") == "true"
	w.wait(r.Context(), resource)
	r.Header.Set("Accept-Encoding", "identity") // What is recorded is replayed to other clients, without the header.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	running := &watch{resource, cancel}
	delivery := &delivery{ResponseWriter: response, lock: &w.lock}
	w.lock.Lock()
	w.running[running] = true
	stale := w.stale[resource]
	if initialEvents && stale == nil {
		delivery.recording = &recording{}
		w.recordings[resource] = delivery.recording
	}
	w.lock.Unlock()
	defer func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		delete(w.running, running)
	}()
	if initialEvents && stale != nil {
		w.replay(ctx, response, resource, stale)
		return
	}
	next.ServeHTTP(delivery, r.WithContext(ctx))
}

func (w *watches) replay(ctx context.Context, response http.ResponseWriter, resource string, stale *recording) {
	response.Header().Set("Content-Type", stale.contentType)
	if _, err := response.Write(stale.events); err != nil {
		return
	}
	response.(http.Flusher).Flush()
	w.wait(ctx, resource+staleSuffix)
}

// delivery is the response to a watch request.
type delivery struct {
	http.ResponseWriter
	lock      *sync.Mutex
	recording *recording // nil unless the watch has initial events
}

// Unwrap lets http.ResponseController flush the response.
func (d *delivery) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *delivery) Write(events []byte) (int, error) {
	if d.recording != nil {
		d.lock.Lock()
		d.recording.contentType = d.Header().Get("Content-Type")
		d.recording.events = append(d.recording.events, bytes.Clone(events)...)
		d.lock.Unlock()
	}
	return d.ResponseWriter.Write(events)
}
