// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab is the API server of the lab: a simulated cluster in which the controller runs, and everything that can be done to both. It
// turns what happens into steps. The page has each instance of the controller, and this package, in a Web Worker of its own.
package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// Host runs the processes of the instances, and shows what happens. Its methods do not wait.
type Host interface {
	// Start starts a process of an instance: the controller or, if it is not empty, a variant of it.
	Start(pod, variant string, flags []string)
	Kill(pod string)
	Terminate(pod string) // by SIGTERM
	Freeze(pod string)
	Thaw(pod string)
	Steps(steps []Step)
	State(s State)
}

// State is what the page shows beside the steps.
type State struct {
	Held   int      `json:"held"` // requests and events
	Acts   []action `json:"acts"`
	Faults []action `json:"faults"`
}

// tickPeriod is the interval at which delays are taken to elapse.
const tickPeriod = 50 * time.Millisecond

// Lab is a cluster with the controller.
type Lab struct {
	host    Host
	sources fs.FS
	cluster *cluster
	gate    *gate

	acts, faults []action

	acting sync.Mutex // is held by whatever starts, stops or changes something: one at a time

	lock       sync.Mutex // guards what follows. It is never held while the cluster is called.
	tracer     *tracer
	instances  []*instance
	variant    string          // that runs instead of the controller, or empty
	flags      []string        // of the instances
	lasting    map[string]bool // the faults of watches
	revoked    string          // the verb that is forbidden for Deployments, if any
	injections []injection
	delay      time.Duration // of each request
}

// New returns a lab whose controller has not been started. sources has the code and the CRD of this project.
func New(host Host, sources fs.FS) (*Lab, error) {
	cluster, err := newCluster(sources)
	if err != nil {
		return nil, err
	}
	l := &Lab{host: host, sources: sources, cluster: cluster, acts: acts, faults: faultActions, tracer: newTracer(sources), lasting: map[string]bool{}}
	l.gate = &gate{changed: l.changed}
	cluster.Observe(stored{l})
	return l, nil
}

// Run starts a single instance of the controller, and traces what happens until ctx is done. Then it kills all instances.
func (l *Lab) Run(ctx context.Context) {
	l.acting.Lock()
	l.startInstances(1)
	l.acting.Unlock()
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			l.trace(func(*tracer) {})
		}
	}
	l.acting.Lock()
	l.stopInstances()
	l.acting.Unlock()
}

// trace adds steps.
func (l *Lab) trace(trace func(*tracer)) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.tracer.advance(time.Now())
	trace(l.tracer)
	if steps := l.tracer.take(); len(steps) > 0 {
		l.host.Steps(steps)
	}
}

// record adds a step that the lab itself makes.
func (l *Lab) record(s Step) { l.trace(func(t *tracer) { t.emit(s) }) }

// change changes the state.
func (l *Lab) change(change func()) {
	l.lock.Lock()
	change()
	l.lock.Unlock()
	l.changed()
}

// changed shows the state.
func (l *Lab) changed() {
	held := l.gate.held()
	l.lock.Lock()
	defer l.lock.Unlock()
	l.host.State(State{Held: held, Acts: l.acts, Faults: l.faults})
}

// Response is the result of what the page asks for.
type Response struct {
	Command string `json:"command,omitempty"` // of kubectl, that does the same
	Steps   []Step `json:"steps,omitempty"`   // of a walk
	Error   string `json:"error,omitempty"`
}

// Handle does what the page asks for: acts/NAME and faults/NAME with the values of their fields, gate, reset,
// exercises/ID, variants/ID as its scenario needs it, and walk with the recording of one.
func (l *Lab) Handle(path string, body []byte) Response {
	if path == "walk" {
		return l.traceWalk(body)
	}
	command, err := l.handle(path, body)
	if err != nil {
		return Response{Error: err.Error()}
	}
	return Response{Command: command}
}

func (l *Lab) handle(path string, body []byte) (command string, err error) {
	kind, name, _ := strings.Cut(path, "/")
	var request struct {
		Closed, Release bool
		Action, Side    string
		Flags           []string
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return "", err
	}
	if kind == "gate" {
		if request.Release {
			l.gate.release()
		} else {
			l.gate.set(request.Closed)
		}
		return "", nil
	}
	l.acting.Lock()
	defer l.acting.Unlock()
	switch kind + " " + request.Action {
	case "acts ", "faults ":
		return l.act(strings.TrimSuffix(kind, "s"), name, body)
	case "reset ":
		l.stop()
		l.cluster.user.Clear()
		l.run("", nil)
	case "exercises ": // The page has checked it.
		l.record(Step{Source: inferred, Stop: "exercise", Kind: "exercise", Name: name, What: "the exercise is done"})
	case "variants begin":
		l.begin(name, request.Side, request.Flags)
	case "variants end":
		l.recordEnd(name)
	case "variants back": // The controller finds the objects as the variant has left them.
		l.stop()
		l.run("", nil)
	default:
		return "", fmt.Errorf("there is no %s", path)
	}
	return "", nil
}
