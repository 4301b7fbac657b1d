// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package recording writes down what happens in a walk, and reads it again. It knows no kind, and does not judge.
package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// Kind is what has happened.
type Kind string

// The kinds of entries.
const (
	Told      Kind = "told"      // The client, which may be a user or the network, has done what the text says.
	Broken    Kind = "broken"    // The promise in the field Promise is broken: the text says how.
	Started   Kind = "started"   // The client's process starts.
	Ended     Kind = "ended"     // It has ended: the text says how.
	Logged    Kind = "logged"    // It has logged the text, which is JSON.
	Requested Kind = "requested" // It sends a request.
	Responded Kind = "responded" // It gets the response to a request: an object, or an error. That of a watch has none.
	Event     Kind = "event"     // It gets an event of a watch, whose request it is.
	WatchEnd  Kind = "watchEnd"  // A watch ends.
	Stored    Kind = "stored"    // The API server has a new state of an object.
)

// Entry is a line of a recording.
type Entry struct {
	At      time.Duration      `json:"at"` // since the start of the walk, in nanoseconds
	Kind    Kind               `json:"kind"`
	Client  string             `json:"client,omitempty"`
	Text    string             `json:"text,omitempty"`
	Promise string             `json:"promise,omitempty"`
	ID      int                `json:"id,omitempty"`      // of the request
	Request *apiserver.Request `json:"request,omitempty"` // of Requested and, without a body, Stored
	Type    watch.EventType    `json:"type,omitempty"`    // of Event and Stored
	Object  json.RawMessage    `json:"object,omitempty"`
	Status  *metav1.Status     `json:"status,omitempty"` // the error that the API server responds with
	Error   string             `json:"error,omitempty"`  // why there is no response
}

// Decode returns the object of an entry.
func (e Entry) Decode() (*apiserver.Object, error) {
	o := &apiserver.Object{}
	return o, utiljson.Unmarshal(e.Object, &o.Object)
}

// Err returns the error in an entry.
func (e Entry) Err() error {
	switch {
	case e.Status != nil:
		return &apierrors.StatusError{ErrStatus: *e.Status}
	case e.Error != "":
		return errors.New(e.Error)
	}
	return nil
}

// Read reads a recording.
func Read(r io.Reader) (entries []Entry, err error) {
	for decoder := json.NewDecoder(r); ; {
		var e Entry
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return entries, nil
		} else if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
}

// Recorder records a walk. It is an apiserver.Observer. One that is nil does nothing.
type Recorder struct {
	start   time.Time
	lock    sync.Mutex
	content bytes.Buffer
	ids     map[*apiserver.Request]int
	closed  bool
}

// New returns the recorder of a walk that starts now.
func New() *Recorder { return &Recorder{start: time.Now(), ids: map[*apiserver.Request]int{}} }

// Add adds an entry. It happens now, unless it says when.
func (r *Recorder) Add(e Entry) {
	if r == nil {
		return
	}
	if e.At == 0 {
		e.At = time.Since(r.start)
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // All its fields are JSON.
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.closed {
		r.content.Write(append(line, '\n'))
	}
}

// Close ends the recording: nothing is added any more.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.closed = true
}

// Bytes returns the recording.
func (r *Recorder) Bytes() []byte {
	r.lock.Lock()
	defer r.lock.Unlock()
	return bytes.Clone(r.content.Bytes())
}

// Committed implements apiserver.Observer.
func (r *Recorder) Committed(c *apiserver.Change) {
	request := *c.Request
	request.Body = nil
	r.Add(Entry{Kind: Stored, Client: request.Client, Request: &request, Type: c.Type, Object: encode(c.New)})
}

// Failed implements apiserver.Observer.
func (r *Recorder) Failed(*apiserver.Request, *apiserver.Object, error) {}

func encode(o *apiserver.Object) json.RawMessage {
	if o == nil {
		return nil
	}
	content, err := json.Marshal(o.Object)
	if err != nil {
		panic(err) // It was JSON.
	}
	return content
}

// id returns the number of a request.
func (r *Recorder) id(request *apiserver.Request) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ids[request] == 0 {
		r.ids[request] = len(r.ids) + 1
	}
	return r.ids[request]
}

// Network returns the network of a client with what the client sends and gets recorded.
func (r *Recorder) Network(client string, network apiserver.Network) apiserver.Network {
	if r == nil {
		return network
	}
	return &recorded{network, r, client}
}

type recorded struct {
	apiserver.Network
	recorder *Recorder
	client   string
}

// Request implements apiserver.Network.
func (n *recorded) Request(request *apiserver.Request) (apiserver.Fault, func(*apiserver.Object, error)) {
	id := n.recorder.id(request)
	n.recorder.Add(Entry{Kind: Requested, Client: n.client, ID: id, Request: request})
	f, responded := n.Network.Request(request)
	return f, func(result *apiserver.Object, err error) {
		e := Entry{Kind: Responded, Client: n.client, ID: id, Object: encode(result)}
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			e.Status = new(status.Status())
		case err != nil:
			e.Error = err.Error()
		}
		n.recorder.Add(e)
		responded(result, err)
	}
}

// Event implements apiserver.Network.
func (n *recorded) Event(request *apiserver.Request, event watch.EventType, o *apiserver.Object) {
	n.recorder.Add(Entry{Kind: Event, Client: n.client, ID: n.recorder.id(request), Type: event, Object: encode(o)})
	n.Network.Event(request, event, o)
}

// Ended implements apiserver.Network.
func (n *recorded) Ended(request *apiserver.Request) {
	n.recorder.Add(Entry{Kind: WatchEnd, Client: n.client, ID: n.recorder.id(request)})
	n.Network.Ended(request)
}

// verbosity is that of the log: each step of a key, with the reason of each decision.
const verbosity = 4

// Logger returns a logger whose lines are recorded as what a client logs. Each is written to w as well, after the letter of its severity.
func (r *Recorder) Logger(client string, w io.Writer) klog.Logger {
	return funcr.NewJSON(func(text string) {
		r.Add(Entry{Kind: Logged, Client: client, Text: text})
		severity := "I"
		if !strings.Contains(text, `"level":`) { // An error has none.
			severity = "E"
		}
		_, _ = fmt.Fprintln(w, severity, text) // It judges what it gets, and never fails.
	}, funcr.Options{
		Verbosity: verbosity, LogCaller: funcr.All, LogCallerFunc: true,
		RenderBuiltinsHook: func(fields []any) []any {
			for i, field := range fields {
				if c, ok := field.(funcr.Caller); ok {
					fields[i] = callerOf(c)
				}
			}
			return fields
		},
	})
}

// callerOf returns package, file and line, such as cache/reflector.go:400.
func callerOf(c funcr.Caller) string {
	function, _, _ := strings.Cut(c.Func, "[") // the types of a generic one
	pkg, _, _ := strings.Cut(path.Base(function), ".")
	return fmt.Sprintf("%s/%s:%d", pkg, c.File, c.Line)
}
