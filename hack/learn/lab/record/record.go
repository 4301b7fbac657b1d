// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package record records what the lab shows, without a browser: the program and the API server run in virtual time, in one process.
package record

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	logsjson "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/hack/learn/lab"
)

// Program runs the controller with flags until ctx is done. Its clients use transport.
type Program func(ctx context.Context, flags []string, transport http.RoundTripper) error

// Scenario is what happens in a recording.
type Scenario struct {
	Variant string   `json:"variant"` // whose scenario it is, if any
	Side    string   `json:"side"`    // what plays it: the controller, or the variant
	Flags   []string `json:"flags"`   // further ones of the program
	Steps   []Step   `json:"steps"`
	After   lab.Step `json:"after"` // the last step of the recording that this one continues, if any
}

// Step is an act, a fault or a wait, as the catalogue of variants has it.
type Step struct {
	Act    string         `json:"act"`
	Fault  string         `json:"fault"`
	Fields map[string]any `json:"fields"`
	Until  map[string]any `json:"until"`
	Wait   float64        `json:"wait"` // in seconds
}

var (
	scenario = flag.String("scenario", "", "`file` with the scenario to record, in JSON")
	output   = flag.String("output", "", "`file` to write the recording to, one step a line")
)

// Main is the test that records. sources has the code and the CRD of the program.
func Main(t *testing.T, sources fs.FS, program Program) {
	content, err := os.ReadFile(*scenario)
	if err != nil {
		t.Fatal(err)
	}
	var s Scenario
	if err := json.Unmarshal(content, &s); err != nil {
		t.Fatal(err)
	}
	// The other handler limits the rate of errors since the start of the process, which is 26 years after the start of a bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, step := range record(t, program, sources, s) {
		if err := encoder.Encode(step); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(*output, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// requestTime is how long a request takes to reach the API server.
const requestTime = 10 * time.Millisecond

// leftoverTime is how long what a process leaves behind may take to end, such as the backoff of a Reflector.
const leftoverTime = 10 * time.Minute

// record plays a scenario, and returns its steps.
func record(t *testing.T, program Program, sources fs.FS, s Scenario) (steps []lab.Step) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(s.After.Time))
		h := &host{program: program, processes: map[string]*process{}}
		l, err := lab.New(h, sources)
		if err != nil {
			t.Fatal(err)
		}
		h.lab = l
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx)
		h.play(t, s)
		h.lock.Lock()
		steps = h.steps
		h.lock.Unlock()
		cancel()
		time.Sleep(leftoverTime)
	})
	if s.Variant != "" { // It begins when its side does.
		for steps[0].Kind != "variant" {
			steps = steps[1:]
		}
	}
	offset := s.After.Seq + 1 - steps[0].Seq // They go on from that step, without a gap.
	for i := range steps {
		steps[i].Seq += offset
		if steps[i].Request > 0 {
			steps[i].Request += offset
		}
	}
	return steps
}

// host runs the processes. It is a lab.Host.
type host struct {
	program Program
	lab     *lab.Lab

	lock      sync.Mutex
	processes map[string]*process // the newest one of each instance
	steps     []lab.Step
}

// process is a process of an instance. Nothing is heard of one that was killed.
type process struct {
	host   *host
	pod    string
	cancel context.CancelFunc
	killed bool
}

// Start implements lab.Host.
func (h *host) Start(pod, _ string, flags []string) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{host: h, pod: pod, cancel: cancel}
	h.lock.Lock()
	h.processes[pod] = p
	h.lock.Unlock()
	logger, control := logsjson.NewJSONLogger(4, p, nil, nil)
	connection := h.lab.Connection(pod)
	go func() {
		err := h.program(klog.NewContext(ctx, logger), flags, transport{connection})
		control.Flush()
		code := 0
		if err != nil {
			code = 1
			p.Write([]byte("Error: " + err.Error()))
		}
		if p.isHeard() {
			h.lab.Exited(pod, fmt.Sprintf("exit code %d", code))
		}
		cancel()
	}()
}

// Kill implements lab.Host.
func (h *host) Kill(pod string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if p := h.processes[pod]; p != nil {
		p.killed = true
		p.cancel()
	}
}

// Terminate implements lab.Host.
func (h *host) Terminate(pod string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if p := h.processes[pod]; p != nil {
		p.cancel()
	}
}

// Freeze implements lab.Host: no recording does.
func (h *host) Freeze(string) { panic("a process without a browser cannot be frozen") }

// Thaw implements lab.Host.
func (h *host) Thaw(string) {}

// Steps implements lab.Host.
func (h *host) Steps(steps []lab.Step) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.steps = append(h.steps, steps...)
}

// State implements lab.Host.
func (h *host) State(lab.State) {}

func (p *process) isHeard() bool {
	p.host.lock.Lock()
	defer p.host.lock.Unlock()
	return !p.killed
}

// Write gets a line of the log.
func (p *process) Write(line []byte) (int, error) {
	if p.isHeard() {
		p.host.lab.Log(p.pod, strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

// Sync has nothing to do.
func (p *process) Sync() error { return nil }

// transport delays requests to the API server.
type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(requestTime)
	return t.next.RoundTrip(r)
}

// play plays a scenario.
func (h *host) play(t *testing.T, s Scenario) {
	t.Helper()
	started := Step{Until: map[string]any{"kind": "workersStarted"}, Wait: 60}
	h.wait(t, 0, started, true)
	since := h.last()
	if s.Variant != "" {
		h.handle(t, "variants/"+s.Variant, map[string]any{"action": "begin", "side": s.Side, "flags": s.Flags})
		h.wait(t, since, started, true)
	}
	for _, step := range s.Steps {
		switch {
		case step.Act != "":
			since = h.last()
			h.handle(t, "acts/"+step.Act, step.Fields)
		case step.Fault != "":
			since = h.last()
			h.handle(t, "faults/"+step.Fault, step.Fields)
		default:
			h.wait(t, since, step, s.Variant == "")
		}
	}
	if s.Variant != "" {
		h.handle(t, "variants/"+s.Variant, map[string]any{"action": "end"})
	}
}

// handle does what the page would ask for.
func (h *host) handle(t *testing.T, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if response := h.lab.Handle(path, text); response.Error != "" {
		t.Fatalf("%s %s: %s", path, text, response.Error)
	}
}

// last returns the number of steps so far.
func (h *host) last() int {
	h.lock.Lock()
	defer h.lock.Unlock()
	return len(h.steps)
}

// wait waits until there is a step, after the first ones, that has some values, if any, or for a time. If it has to come, it fails without it.
func (h *host) wait(t *testing.T, first int, wait Step, mustCome bool) {
	t.Helper()
	for end := time.Now().Add(time.Duration(wait.Wait * float64(time.Second))); time.Now().Before(end); {
		h.lock.Lock()
		steps := h.steps[first:]
		h.lock.Unlock()
		if wait.Until != nil && slices.ContainsFunc(steps, func(step lab.Step) bool { return hasValues(step, wait.Until) }) {
			return
		}
		first += len(steps)
		time.Sleep(10 * time.Millisecond)
	}
	if wait.Until != nil && mustCome {
		t.Fatalf("there is no step %v within %v s", wait.Until, wait.Wait)
	}
}

// hasValues reports whether a step has some values, by the names of their fields in JSON.
func hasValues(step lab.Step, values map[string]any) bool {
	text, err := json.Marshal(step)
	var fields map[string]any
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return false
	}
	for name, value := range values {
		if !reflect.DeepEqual(fields[name], value) {
			return false
		}
	}
	return true
}
