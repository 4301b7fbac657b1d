// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watches are the watches that pass through the proxy. Resources are named as in Rule.
type watches struct {
	lock    sync.Mutex
	blocks  map[string]block
	gone    map[string]bool // Who asks to go on from where he was is told that this is too long ago, until someone lists.
	running map[*watch]bool
	tapes   map[string]*tape // what the newest watch that began with a list has delivered
	old     map[string]*tape // what is played instead
}

// block keeps the watches of a resource from delivering until it is closed.
type block chan struct{}

type watch struct {
	resource string
	cancel   context.CancelFunc
}

// tape is the beginning of a watch that began with a list.
type tape struct {
	contentType string
	events      []byte
}

// Freeze has the watches of the resources stand still until Thaw: nothing is lost, but nothing arrives.
func (p *Proxy) Freeze(resources ...string) { p.watches.block(resources) }

// Thaw ends Freeze.
func (p *Proxy) Thaw() { p.watches.openAll() }

// CutWatches ends the watches of the resources, and lets no new one begin until MendWatches.
func (p *Proxy) CutWatches(resources ...string) {
	p.watches.block(resources)
	p.watches.end(resources)
}

// MendWatches ends CutWatches. If what happened meanwhile is gone, it must be listed anew: nobody learns of the states in between.
// Otherwise the watches deliver it.
func (p *Proxy) MendWatches(gone bool) {
	p.watches.lock.Lock()
	for resource := range p.watches.blocks {
		p.watches.gone[resource] = gone
	}
	p.watches.lock.Unlock()
	p.watches.openAll()
}

// Tape remembers the state of the resources as the program's watches have delivered it. Watches that begin with a list deliver
// this state, and then stand still, until CatchUp: like those of an API server whose cache lags behind.
func (p *Proxy) Tape(resources ...string) {
	p.watches.lock.Lock()
	defer p.watches.lock.Unlock()
	for _, resource := range resources {
		p.watches.old[resource] = &tape{p.watches.tapes[resource].contentType, slices.Clone(p.watches.tapes[resource].events)}
		p.watches.blocks[resource+lagging] = make(block)
	}
}

// CatchUp ends Tape: the watches that stand still end, so that the program asks for what has happened since.
func (p *Proxy) CatchUp() {
	p.watches.lock.Lock()
	clear(p.watches.old)
	p.watches.lock.Unlock()
	p.watches.openAll()
}

// lagging marks the blocks of watches that play a tape.
const lagging = " of an API server that lags behind"

func (w *watches) block(resources []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, resource := range resources {
		if w.blocks[resource] == nil {
			w.blocks[resource] = make(block)
		}
	}
}

func (w *watches) openAll() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, block := range w.blocks {
		close(block)
	}
	clear(w.blocks)
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

// wait returns when nothing blocks the watches of a resource, or the watch ends.
func (w *watches) wait(ctx context.Context, resource string) {
	for {
		w.lock.Lock()
		block := w.blocks[resource]
		w.lock.Unlock()
		if block == nil {
			return
		}
		select {
		case <-block:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watches) serve(response http.ResponseWriter, r *http.Request, resource string, upstream http.Handler) {
	list := r.URL.Query().Get("sendInitialEvents") == "true"
	w.wait(r.Context(), resource)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	running := &watch{resource, cancel}
	delivery := &delivery{ResponseWriter: response, watches: w, ctx: ctx, resource: resource}
	w.lock.Lock()
	if w.gone[resource] && !list {
		w.lock.Unlock()
		answer(response, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	delete(w.gone, resource)
	w.running[running] = true
	old := w.old[resource]
	if list && old == nil {
		delivery.tape = &tape{}
		w.tapes[resource] = delivery.tape
	}
	w.lock.Unlock()
	defer func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		delete(w.running, running)
	}()
	if list && old != nil {
		w.play(ctx, response, resource, old)
		return
	}
	upstream.ServeHTTP(delivery, r.WithContext(ctx))
}

func (w *watches) play(ctx context.Context, response http.ResponseWriter, resource string, old *tape) {
	response.Header().Set("Content-Type", old.contentType)
	if _, err := response.Write(old.events); err != nil {
		return
	}
	response.(http.Flusher).Flush()
	w.wait(ctx, resource+lagging)
}

// delivery is the answer to a watch.
type delivery struct {
	http.ResponseWriter
	watches  *watches
	ctx      context.Context
	resource string
	tape     *tape
}

// Unwrap is for http.ResponseController, which flushes what has been written.
func (d *delivery) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *delivery) Write(events []byte) (int, error) {
	d.watches.wait(d.ctx, d.resource)
	if d.ctx.Err() != nil {
		return 0, d.ctx.Err()
	}
	if d.tape != nil {
		d.watches.lock.Lock()
		d.tape.contentType = d.Header().Get("Content-Type")
		d.tape.events = append(d.tape.events, bytes.Clone(events)...)
		d.watches.lock.Unlock()
	}
	return d.ResponseWriter.Write(events)
}
