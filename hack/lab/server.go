// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/sample-controller/hack/variants"
)

const (
	// maxBody bounds the body of a request.
	maxBody = 1 << 16
	// batchPeriod is how long the server collects steps before it sends them.
	batchPeriod = 50 * time.Millisecond
	// maxBatch bounds the steps in an event, and maxRaw those that have what they come from with them.
	maxBatch, maxRaw = 500, 200
	// maxBehind is how many steps a page may be behind before steps are left out.
	maxBehind = 10000
	// keepAlivePeriod is the interval between comments without steps.
	keepAlivePeriod = 15 * time.Second
)

// handler serves the page and the API of the lab at an address.
func (l *lab) handler(address string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(pageFiles()))
	mux.HandleFunc("GET /steps", l.serveSteps)
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, l.state()) })
	mux.HandleFunc("GET /recording", l.serveRecording)
	mux.HandleFunc("POST /acts/{name}", l.serveAction("act", acts))
	mux.HandleFunc("POST /faults/{name}", l.serveAction("fault", faultActions))
	mux.HandleFunc("POST /motion", l.serveMotion)
	mux.HandleFunc("POST /exercises/{name}", l.serveExercise)
	mux.HandleFunc("GET /variants.json", serveVariants)
	mux.HandleFunc("GET /glossary.json", l.serveGlossary)
	mux.HandleFunc("POST /variants/{name}", l.serveVariant)
	return onlyLocal(address, mux)
}

// onlyLocal refuses requests that another web site makes: by its Origin, or by a Host that it resolves to 127.0.0.1.
func onlyLocal(address string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address)
	hosts := []string{address, net.JoinHostPort("localhost", port)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
		origin, err := url.Parse(r.Header.Get("Origin"))
		isForeign := r.Header.Get("Origin") != "" && (err != nil || origin.Scheme != "http" || !slices.Contains(hosts, origin.Host))
		switch {
		case !slices.Contains(hosts, r.Host) || isForeign:
			respond(w, http.StatusForbidden, failure{"only http://" + address + " may use the lab"})
		case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
			respond(w, http.StatusUnsupportedMediaType, failure{"the Content-Type must be application/json"})
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		}
	})
}

// contentSecurityPolicy lets the page use nothing but the files and the API of the lab.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type failure struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body) // The client may be gone.
}

// serveSteps sends the steps that are kept, further ones as they happen, and the state whenever it changes.
func (l *lab) serveSteps(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher := http.NewResponseController(w)
	defer l.merger.attend()()
	last, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if last > l.stream.last() {
		last = 0 // Of an earlier lab at the same address.
	}
	keepAlive := time.NewTicker(keepAlivePeriod)
	defer keepAlive.Stop()
	sent := ""
	for isFirst := true; ; isFirst = false {
		l.lock.Lock()
		changes := l.changes
		l.lock.Unlock()
		if state, err := json.Marshal(l.state()); err == nil && string(state) != sent {
			sent = string(state)
			fmt.Fprintf(w, "event: state\ndata: %s\n\n", state)
		}
		steps, more := l.stream.after(last)
		if isFirst {
			steps = steps[max(0, len(steps)-keptSteps):]
		} else if len(steps) > maxBehind {
			steps = leaveOut(steps)
		}
		for batch := range slices.Chunk(steps, maxBatch) {
			last = batch[len(batch)-1].Seq
			if len(steps) > maxRaw && !isFirst {
				batch = withoutRaw(batch)
			}
			data, err := json.Marshal(batch)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "event: steps\nid: %d\ndata: %s\n\n", last, data); err != nil {
				return
			}
		}
		if flusher.Flush() != nil {
			return
		}
		select {
		case <-more:
		case <-changes:
		case <-keepAlive.C:
			fmt.Fprint(w, ": keep alive\n\n")
		case <-r.Context().Done():
			return
		}
		time.Sleep(batchPeriod)
	}
}

// leaveOut replaces all but the newest steps by a summary.
func leaveOut(steps []Step) []Step {
	left := steps[:len(steps)-maxBatch]
	s := Step{Seq: left[len(left)-1].Seq, Time: left[len(left)-1].Time, Source: inferred, Stop: "act", Kind: "summary",
		Count: len(left), Counts: map[string]int{}, What: "left out: the page could not keep up"}
	for _, step := range left {
		s.Counts[step.Kind]++
	}
	return append([]Step{s}, steps[len(steps)-maxBatch:]...)
}

func withoutRaw(steps []Step) []Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Raw = ""
	}
	return steps
}

func (l *lab) serveRecording(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="lab-recording.jsonl"`)
	steps, _ := l.stream.after(0)
	writeRecording(w, steps)
}

// serveAction does one of the actions.
func (l *lab) serveAction(stop string, actions []action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, ok := find(actions, r.PathValue("name"))
		if !ok {
			respond(w, http.StatusNotFound, failure{"there is no such " + stop})
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			respond(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		command, err := l.act(r.Context(), stop, a, body)
		switch {
		case errors.Is(err, errInvalid):
			respond(w, http.StatusBadRequest, failure{err.Error()})
		case err != nil:
			respond(w, http.StatusBadGateway, failure{err.Error()})
		default:
			respond(w, http.StatusOK, map[string]string{"command": command})
		}
	}
}

func (l *lab) serveMotion(w http.ResponseWriter, r *http.Request) {
	var motion struct {
		Mode    string
		Seconds float64
		Release int
	}
	if err := json.NewDecoder(r.Body).Decode(&motion); err != nil {
		respond(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	const maxSeconds = 60
	switch {
	case motion.Release > 0:
		l.gate.release(motion.Release)
	case motion.Mode == slow && motion.Seconds > 0 && motion.Seconds <= maxSeconds:
		l.gate.set(slow, time.Duration(motion.Seconds*float64(time.Second)))
	case motion.Mode == run || motion.Mode == step:
		l.gate.set(motion.Mode, 0)
	default:
		respond(w, http.StatusBadRequest, failure{"the mode must be run, step, or slow with seconds up to 60"})
		return
	}
	respond(w, http.StatusOK, l.state())
}

func (l *lab) serveExercise(w http.ResponseWriter, r *http.Request) {
	var body struct{ Action string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Action != "start" && body.Action != "stop" {
		respond(w, http.StatusBadRequest, failure{"the action must be start or stop"})
		return
	}
	if !l.exercises.set(r.PathValue("name"), body.Action == "start") {
		respond(w, http.StatusNotFound, failure{"there is no such exercise"})
		return
	}
	l.changed()
	respond(w, http.StatusOK, l.state())
}

// serveVariants serves the catalogue of variants.
func serveVariants(w http.ResponseWriter, _ *http.Request) {
	all, err := variants.All()
	if err != nil {
		respond(w, http.StatusInternalServerError, failure{err.Error()})
		return
	}
	respond(w, http.StatusOK, all)
}

func (l *lab) serveVariant(w http.ResponseWriter, r *http.Request) {
	var body struct{ Action string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Action != "run" && body.Action != "back" {
		respond(w, http.StatusBadRequest, failure{"the action must be run or back"})
		return
	}
	if body.Action == "back" {
		l.stopVariant()
	} else if err := l.startVariant(r.PathValue("name")); errors.Is(err, fs.ErrNotExist) {
		respond(w, http.StatusNotFound, failure{"there is no such variant"})
		return
	} else if err != nil {
		respond(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	respond(w, http.StatusOK, l.state())
}

// state is what the page shows beside the steps.
type state struct {
	Phase     string          `json:"phase"`
	Progress  string          `json:"progress,omitempty"`
	Error     string          `json:"error,omitempty"`
	Shell     string          `json:"shell,omitempty"`
	Pods      []podState      `json:"pods"`
	Motion    motionState     `json:"motion"`
	FaultsOn  []string        `json:"faultsOn"`
	Acts      []action        `json:"acts"`
	Faults    []action        `json:"faults"`
	Exercises []exerciseState `json:"exercises"`
	Variant   *variantState   `json:"variant,omitempty"`
}

type podState struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Leader bool   `json:"leader"`
	PID    int    `json:"pid"`
}

type motionState struct {
	Mode    string  `json:"mode"`
	Seconds float64 `json:"seconds"`
	Held    int     `json:"held"`
}

func (l *lab) state() state {
	mode, delay, held := l.gate.state()
	s := state{Pods: []podState{}, FaultsOn: []string{}, Acts: acts, Faults: faultActions, Exercises: l.exercises.state(),
		Motion: motionState{mode, delay.Seconds(), held}}
	l.lock.Lock()
	defer l.lock.Unlock()
	s.Phase, s.Progress, s.Variant = l.phase, l.progress, l.variant
	switch l.phase {
	case failed:
		s.Error, s.Progress = l.progress, ""
	case live:
		s.Shell = fmt.Sprintf("export KUBECONFIG=%q KUBECACHEDIR=%q PATH=%q:\"$PATH\"", l.cluster.Kubeconfig(), l.cluster.KubectlCache(), l.cluster.BinDir())
	}
	for _, i := range l.instances {
		if i.process != nil {
			s.Pods = append(s.Pods, podState{i.name, i.state, i.leader, i.process.Pid})
		}
	}
	s.FaultsOn = slices.AppendSeq(s.FaultsOn, maps.Keys(l.lasting))
	slices.Sort(s.FaultsOn)
	return s
}
