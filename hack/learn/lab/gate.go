// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import "sync"

// gate makes requests and events wait while it is closed.
type gate struct {
	lock    sync.Mutex
	closed  bool
	waiting []chan struct{}
	changed func()
}

// set opens or closes the gate. When it opens, everything that waits continues.
func (g *gate) set(closed bool) {
	g.lock.Lock()
	g.closed = closed
	if !closed {
		g.letThrough(len(g.waiting))
	}
	g.lock.Unlock()
	g.changed()
}

// release lets the one that has waited longest continue.
func (g *gate) release() {
	g.lock.Lock()
	g.letThrough(min(1, len(g.waiting)))
	g.lock.Unlock()
	g.changed()
}

func (g *gate) letThrough(count int) {
	for _, waiting := range g.waiting[:count] {
		close(waiting)
	}
	g.waiting = g.waiting[count:]
}

// held returns how many wait.
func (g *gate) held() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return len(g.waiting)
}

// wait returns when the caller may continue.
func (g *gate) wait() {
	released := make(chan struct{})
	g.lock.Lock()
	closed := g.closed
	if closed {
		g.waiting = append(g.waiting, released)
	}
	g.lock.Unlock()
	if closed {
		g.changed()
		<-released
	}
}
