// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab is the API server of the lab: a simulated cluster in which the controller runs, and everything that can be done to both. It
// turns what happens into steps. The page has each instance of the controller, and this package, in a Web Worker of its own.
package lab

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation"
)

// Host runs the processes of the instances, and shows what happens. Its methods do not wait.
type Host interface {
	// Start starts a process of an instance: the controller or, if it is not empty, a variant of it.
	Start(pod, variant string, flags []string)
	Kill(pod string)
	Freeze(pod string)
	Thaw(pod string)
	Steps(steps []Step)
	State(s State)
}

// State is what the page shows beside the steps.
type State struct {
	Held    int           `json:"held"` // requests and events
	Acts    []action      `json:"acts"`
	Faults  []action      `json:"faults"`
	Variant *variantState `json:"variant,omitempty"`
}

const (
	// tickPeriod is the interval at which delays are taken to elapse.
	tickPeriod = 50 * time.Millisecond
	// keptSteps is how many steps of the past are kept. Up to twice as many are.
	keptSteps = 20_000
)

// Lab is a cluster with the controller.
type Lab struct {
	host    Host
	cluster simulation.Cluster
	gate    *gate

	acts, faults []action

	acting sync.Mutex // is held by acts, faults and scenarios: one at a time

	lock       sync.Mutex // guards what follows. It is never held while the cluster is called.
	tracer     *tracer
	steps      []Step        // the newest ones
	more       chan struct{} // It is closed, and replaced, when there are more.
	instances  []*instance
	variant    string          // that runs instead of the controller, or empty
	flags      []string        // of the instances
	lasting    map[string]bool // the faults of watches
	revoked    string          // the verb that is forbidden for Deployments, if any
	injections []injection
	delay      time.Duration // of each request
	played     *variantState
	endVariant func()
}

// New returns a lab whose controller has not been started. sources has the code of this project.
func New(host Host, sources fs.FS) *Lab {
	l := &Lab{
		host: host, cluster: simulation.NewCluster(), acts: acts, faults: faultActions, tracer: newTracer(sources), more: make(chan struct{}),
		lasting: map[string]bool{}, endVariant: func() {},
	}
	l.gate = &gate{changed: l.changed}
	l.cluster.Observe(func(resource string, eventType watch.EventType, o *object) {
		if resource == foos || resource == deployments {
			l.trace(func(t *tracer) { t.store(resource, string(eventType), describe(o)) })
		}
	})
	return l
}

// Run starts a single instance of the controller, and traces what happens. It does not return.
func (l *Lab) Run() {
	l.acting.Lock()
	l.startInstances(1)
	l.acting.Unlock()
	for range time.Tick(tickPeriod) {
		l.trace(func(*tracer) {})
	}
}

// trace adds steps.
func (l *Lab) trace(trace func(*tracer)) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.tracer.advance(time.Now())
	trace(l.tracer)
	steps := l.tracer.take()
	if len(steps) == 0 {
		return
	}
	if len(l.steps) > 2*keptSteps {
		l.steps = slices.Clone(l.steps[len(l.steps)-keptSteps:])
	}
	l.steps = append(l.steps, steps...)
	close(l.more)
	l.more = make(chan struct{})
	l.host.Steps(steps)
}

// record adds a step that the lab itself makes.
func (l *Lab) record(s Step) { l.trace(func(t *tracer) { t.emit(s) }) }

// after returns the kept steps with a greater number than seq, and a channel that is closed when there are more.
func (l *Lab) after(seq int64) ([]Step, <-chan struct{}) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.steps) == 0 {
		return nil, l.more
	}
	first := l.steps[0].Seq
	return l.steps[min(max(0, seq+1-first), int64(len(l.steps))):], l.more
}

// last returns the number of the newest step.
func (l *Lab) last() int64 {
	steps, _ := l.after(0)
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].Seq
}

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
	l.host.State(State{Held: held, Acts: l.acts, Faults: l.faults, Variant: l.played})
}

// Response is the result of what the page asks for.
type Response struct {
	Command string `json:"command,omitempty"` // of kubectl, that does the same
	Error   string `json:"error,omitempty"`
}

// Handle does what the page asks for: acts/NAME and faults/NAME with the values of their fields, gate, reset, exercises/ID and variants/ID.
func (l *Lab) Handle(path string, body []byte) Response {
	command, err := l.handle(path, body)
	if err != nil {
		return Response{Error: err.Error()}
	}
	return Response{Command: command}
}

func (l *Lab) handle(path string, body []byte) (command string, err error) {
	kind, name, _ := strings.Cut(path, "/")
	var request struct {
		Action   string
		Closed   bool
		Release  bool
		Scenario Scenario
	}
	if kind == "acts" || kind == "faults" {
		if l.isPlaying() {
			return "", errPlaying
		}
		l.acting.Lock()
		defer l.acting.Unlock()
		return l.act(strings.TrimSuffix(kind, "s"), name, body)
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return "", err
	}
	switch kind {
	case "gate":
		if request.Release {
			l.gate.release()
		} else {
			l.gate.set(request.Closed)
		}
		return "", nil
	case "reset":
		return "", l.reset()
	case "exercises": // The page has checked it.
		l.record(Step{Source: inferred, Stop: "exercise", Kind: "exercise", Name: name, What: "the exercise is done"})
		return "", nil
	case "variants":
		if request.Action == "run" {
			return "", l.startVariant(name, request.Scenario)
		}
		l.stopVariant()
		return "", nil
	}
	return "", fmt.Errorf("there is no %s", path)
}

// reset removes everything, and starts the controller anew.
func (l *Lab) reset() error {
	if l.isPlaying() {
		return errPlaying
	}
	l.stopVariant()
	l.acting.Lock()
	defer l.acting.Unlock()
	l.stop()
	l.cluster.Clear()
	l.run("", nil)
	return nil
}
