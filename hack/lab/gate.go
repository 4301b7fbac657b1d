// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The modes of a gate.
const (
	run  = "run"
	slow = "slow"
	step = "step"
)

// gate is slow motion: it makes requests and events wait for some seconds each, or for a click.
type gate struct {
	isClosed atomic.Bool

	lock    sync.Mutex
	mode    string
	delay   time.Duration
	waiting []chan struct{}
	changed func()
}

func newGate(changed func()) *gate { return &gate{mode: run, changed: changed} }

// closed reports whether anything has to wait.
func (g *gate) closed() bool { return g.isClosed.Load() }

// set sets the mode. With run, everything that waits continues.
func (g *gate) set(mode string, delay time.Duration) {
	g.lock.Lock()
	g.mode, g.delay = mode, delay
	g.isClosed.Store(mode != run)
	if mode != step {
		for _, waiting := range g.waiting {
			close(waiting)
		}
		g.waiting = nil
	}
	g.lock.Unlock()
	g.changed()
}

// release lets the oldest that wait for a click continue.
func (g *gate) release(count int) {
	g.lock.Lock()
	count = min(count, len(g.waiting))
	for _, waiting := range g.waiting[:count] {
		close(waiting)
	}
	g.waiting = slices.Delete(g.waiting, 0, count)
	g.lock.Unlock()
	g.changed()
}

func (g *gate) state() (mode string, delay time.Duration, waiting int) {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.mode, g.delay, len(g.waiting)
}

// wait returns when the caller may continue, or ctx is done.
func (g *gate) wait(ctx context.Context) {
	released := make(chan struct{})
	g.lock.Lock()
	mode, delay := g.mode, g.delay
	if mode == step {
		g.waiting = append(g.waiting, released)
	}
	g.lock.Unlock()
	g.changed()
	var elapsed <-chan time.Time
	switch mode {
	case run:
		return
	case slow:
		elapsed = time.After(delay)
	}
	select {
	case <-released:
	case <-elapsed:
	case <-ctx.Done():
		g.lock.Lock()
		g.waiting = slices.DeleteFunc(g.waiting, func(waiting chan struct{}) bool { return waiting == released })
		g.lock.Unlock()
	}
}
