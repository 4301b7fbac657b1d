// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	"k8s.io/sample-controller/hack/simulation/recording"
)

// user is the client of users, as stories name it.
const user = "user"

const instancePrefix = "instance-"

func isInstance(client string) bool { return strings.HasPrefix(client, instancePrefix) }

// restartDelay is how long it takes until a process that has ended is started again.
const restartDelay = time.Second

// instance is a process that runs the program. It is the network of the process's connection to the API server.
type instance struct {
	*apiserver.Connection
	apiserver.Reliable
	name    string
	walk    *walk
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time

	knowledge
	stopped    bool                               // by SIGTERM or SIGKILL
	staleUntil map[schema.GroupResource]time.Time // until when the API server has no events: see stale
}

// stale is how far behind the API server is to which the next process connects: it has lists of a resourceVersion and, for a while, no events.
type stale struct {
	since    map[schema.GroupResource]int64
	duration time.Duration
}

// newInstance returns a process that has not been started yet. The lock is held once others are running.
func (w *walk) newInstance() *instance {
	w.started++
	i := &instance{walk: w, name: fmt.Sprintf("%s%d", instancePrefix, w.started), started: time.Now(), knowledge: newKnowledge(),
		staleUntil: map[schema.GroupResource]time.Time{}}
	i.Connection = w.server.Connect(i.name, w.recorder.Network(i.name, i))
	for resource, version := range w.stale.since {
		i.Stale(resource, version)
		i.staleUntil[resource] = time.Now().Add(w.stale.duration)
	}
	w.stale = stale{}
	for _, resource := range w.watched {
		if w.heldAtStart > 0 && resource != leases && !w.isUsers(resource) {
			i.Hold(resource, w.heldAtStart)
		}
	}
	logs := &logWriter{i: i}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs)))
	if w.recorder != nil {
		logger = w.recorder.Logger(i.name, logs)
	}
	i.ctx, i.cancel = context.WithCancel(klog.NewContext(context.Background(), logger))
	return i
}

// stop stops a process as SIGTERM does or, if it is killed, as SIGKILL does.
func (i *instance) stop(kill bool) {
	i.onceSynced(func() {
		i.walk.lock.Lock()
		i.stopped = true
		i.walk.lock.Unlock()
		if kill {
			i.Break()
			i.walk.recorder.Add(recording.Entry{Kind: recording.Ended, Client: i.name, Text: "killed"})
		}
		i.cancel()
	})
}

// onceSynced stops a process at once or, if the program would not end otherwise, as soon as its caches have synced.
func (i *instance) onceSynced(stop func()) {
	if !i.walk.SyncsFirst {
		stop()
		return
	}
	go func() {
		for !i.hasSynced() {
			if time.Sleep(pollTime); i.ctx.Err() != nil {
				return
			}
		}
		stop()
	}()
}

// hasSynced reports whether all caches that the process has opened have caught up, long enough for the program to know that.
func (i *instance) hasSynced() bool {
	i.walk.lock.Lock()
	defer i.walk.lock.Unlock()
	for _, at := range i.caughtUp {
		if at.IsZero() || time.Since(at) < 2*pollTime {
			return false
		}
	}
	return len(i.caughtUp) > 0
}

// keepRunning runs the program, again and again, as the nth replica.
func (w *walk) keepRunning(n int) {
	for {
		i := w.current(n)
		w.add(line{who: i.name, what: "starts", kind: recording.Started})
		err := w.runProgram(i)
		i.Break()
		i.cancel() // What the program has left running ends, as with the process.
		w.judgeExit(i, err)
		w.sleep(restartDelay)
		w.lock.Lock()
		over := w.over || w.isEnded()
		if !over {
			w.instances[n] = w.newInstance()
		}
		w.lock.Unlock()
		if over {
			return
		}
	}
}

// errExited is how a program ends that calls runtime.Goexit, as one may instead of os.Exit.
var errExited = errors.New("exited")

// runProgram runs the program until it returns, as it has to once its context is done. Without that, the walk would wait for ever, while
// virtual time passes.
func (w *walk) runProgram(i *instance) error {
	ended := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { ended <- err }()
		err = w.Program(i.ctx, i.Config())
	}()
	select {
	case err := <-ended:
		return err
	case <-i.ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(leftoverTime):
		w.violated(Health, "%s has not returned %s after its context was done: Program has to, as the process ends then", i.name, leftoverTime)
		return i.ctx.Err()
	}
}

// current returns the process of the nth replica.
func (w *walk) current(n int) *instance {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.instances[n%len(w.instances)]
}

// isRival reports whether another instance believes that it leads. The lock is held.
func (i *instance) isRival(other *instance) bool { return other != i && other.leads && !other.stopped }

// instanceOf returns the current process with a name, or nil. The lock is held.
func (w *walk) instanceOf(client string) *instance {
	for _, i := range w.instances {
		if i.name == client {
			return i
		}
	}
	return nil
}

// Request records and judges a request, and decides what happens to it.
func (i *instance) Request(r *apiserver.Request) (apiserver.Fault, func(*object, error)) {
	w := i.walk
	w.lock.Lock()
	sendsInitial := r.Query.Get("sendInitialEvents") == "true"
	if sendsInitial {
		i.initial[r] = map[types.UID]bool{}
	}
	if sendsInitial || r.Verb == "list" {
		i.opens(r.Resource)
	}
	q := i.newRequest(r)
	i.send(q)
	f := i.faultOf(r)
	if w.isIdle && r.Resource == leases && (w.hasLeader() || w.isLong) {
		f.AfterDelay += w.leaseDurations[r.Key()] / 5 // Between a request and the next response, a leader must not come to doubt that it leads.
	}
	w.lock.Unlock()
	switch {
	case f.kill && f.Lost:
		f.Applied = func() { i.stop(true) }
	case f.kill:
		i.stop(true)
	}
	return f.Fault, func(result *object, err error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		i.learnResponse(q, result, err)
		i.recordResponse(q, err)
	}
}

// faultOf decides what happens to a request. The lock is held.
func (i *instance) faultOf(r *apiserver.Request) (f fault) {
	w := i.walk
	if w.requestFault == nil {
		return f
	}
	id := i.id(strings.TrimSuffix(r.String()+" "+r.Namespace, " "))
	if f = w.requestFault(id, r); f.what != "" {
		w.faults[id] = f
		w.happened++
		w.tell(i.name, fmt.Sprintf("%s: %s", r, f.what))
	}
	return f
}

// send records and judges a request. The lock is held.
func (i *instance) send(q *request) {
	w := i.walk
	w.used = insert(w.used, useOf(q.Request), strings.Compare)
	if q.Verb == "watch" {
		w.watched = insert(w.watched, q.Resource, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	}
	if isWork(q.Resource) {
		w.requests = append(w.requests, q.withoutBody())
	}
	if q.Resource == leases && q.body != nil && holderOf(q.body) != "" {
		i.identity, w.elects = holderOf(q.body), true
	}
	for _, j := range w.judges {
		if j.sent != nil {
			j.sent(i, q)
		}
	}
	i.open[q.Request] = q
}

// id returns the name of the next request or event of a kind. It does not depend on those of other kinds. The lock is held.
func (i *instance) id(kind string) string {
	i.counts[kind]++
	return fmt.Sprintf("%s %s #%d", i.name, kind, i.counts[kind])
}

// Lag returns by how much an event lags behind.
func (i *instance) Lag(r *apiserver.Request, event watch.EventType, o *object) (lag time.Duration) {
	w := i.walk
	w.lock.Lock()
	defer w.lock.Unlock()
	switch until := i.staleUntil[r.Resource]; {
	case o != nil && time.Now().Before(until):
		return time.Until(until)
	case w.eventLag == nil:
		return 0
	}
	what := "list of " + r.Resource.String()
	if o != nil {
		what = fmt.Sprintf("%s event of %s %s", event, o.GetKind(), o.GetName())
	}
	id := i.id(what)
	if lag = w.eventLag(id); lag > 0 {
		w.tell("network", fmt.Sprintf("%s takes %s", id, lag))
	}
	return lag
}

// Event records an event that the instance gets.
func (i *instance) Event(r *apiserver.Request, event watch.EventType, o *object) {
	i.walk.lock.Lock()
	defer i.walk.lock.Unlock()
	i.learnEvent(r, event, o)
}

// logWriter looks at what an instance logs.
type logWriter struct {
	i     *instance
	lock  sync.Mutex
	at    time.Time
	lines int // how many lines were logged at that time
}

// maxLines is how many lines an instance may log at one moment. One that logs more never waits.
const maxLines = 10_000

// Write implements io.Writer.
func (l *logWriter) Write(text []byte) (int, error) {
	if strings.HasPrefix(string(text), "E") && strings.Contains(string(text), "panic") {
		l.i.walk.violated(Health, "%s panics: %s", l.i.name, text)
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if now := time.Now(); l.at != now {
		l.at, l.lines = now, 0
	}
	l.lines++
	if l.lines == maxLines {
		l.i.walk.violated(Health, "%s logs without end: %s", l.i.name, text)
		l.i.stop(true)
	}
	return len(text), nil
}
