// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"slices"
	"sync"
)

// watches are all watches that pass through the proxy.
type watches struct {
	lock        sync.Mutex
	interrupted map[string]chan struct{} // by resource; closed when watches may begin again
	running     map[*watch]bool
}

type watch struct {
	resource string
	cancel   context.CancelFunc
}

func newWatches() watches {
	return watches{interrupted: map[string]chan struct{}{}, running: map[*watch]bool{}}
}

// InterruptWatches ends the watches of the resources and blocks new ones until ResumeWatches.
func (p *Proxy) InterruptWatches(resources ...string) {
	w := &p.watches
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, resource := range resources {
		if w.interrupted[resource] == nil {
			w.interrupted[resource] = make(chan struct{})
		}
	}
	for watch := range w.running {
		if slices.Contains(resources, watch.resource) {
			watch.cancel()
		}
	}
}

// ResumeWatches ends InterruptWatches.
func (p *Proxy) ResumeWatches() {
	w := &p.watches
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, resumed := range w.interrupted {
		close(resumed)
	}
	clear(w.interrupted)
}

// begin waits while the watches of a resource are interrupted, and returns the context of a new one, which ends with end.
func (w *watches) begin(ctx context.Context, resource string) (watchCtx context.Context, end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for w.interrupted[resource] != nil && ctx.Err() == nil {
		resumed := w.interrupted[resource]
		w.lock.Unlock()
		select {
		case <-resumed:
		case <-ctx.Done():
		}
		w.lock.Lock()
	}
	ctx, cancel := context.WithCancel(ctx)
	running := &watch{resource, cancel}
	w.running[running] = true
	return ctx, func() {
		cancel()
		w.lock.Lock()
		defer w.lock.Unlock()
		delete(w.running, running)
	}
}
