// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// ResyncPeriod is the resync period of the program under test. What is reconciled only then is reconciled too late.
const ResyncPeriod = 4 * time.Minute

// Program is the program under test. It runs in the cluster of config until ctx is done. It elects a leader, with client-go's defaults.
type Program func(ctx context.Context, config *rest.Config) error

const (
	// convergenceTimeout is how long it may take, after the last action or fault, until the Foos are reconciled. It is as long as the write
	// delays that the actions of a walk may cause.
	convergenceTimeout = 2 * time.Minute
	// quietTime is how long it takes until all retry delays and write pauses have ended, and steadyTime how long the steady state is
	// watched: for two resyncs.
	quietTime, steadyTime = 3 * time.Minute, 2*ResyncPeriod + time.Minute
	// restartTime is how long instances that were restarted are watched. They lead later than the Lease expires.
	restartTime = time.Minute
	// leftoverTime is how long what a process has left running may take to notice that all its connections are broken.
	leftoverTime = 10 * time.Minute
	// restartDelay is how long it takes until a process that has ended is started again.
	restartDelay = time.Second
)

// walk is one run of a script, or of a trial, in a cluster of its own.
type walk struct {
	script  script
	isTrial bool
	program Program
	server  *server
	took    time.Duration
	running sync.WaitGroup
	story

	// lock is that of the server. It guards the rest, and what the instances know.
	lock          *sync.Mutex
	instances     []*instance      // the current process of each replica
	started       int              // how many processes were started
	staleness     map[string]int64 // of the lists of the next process
	heldAtStart   time.Duration    // for how long the watch of Deployments of each new process is held
	over          bool
	requestFault  func(id string, r *Request) Fault
	eventLag      func(event string) time.Duration
	reporter      map[string]*instance // which instance knows that it has written the last status of a Foo
	calmSince     time.Time            // Since then no fault happens.
	happened      int                  // how many actions and faults
	faults        map[string]Fault
	requests      []*Request           // those of the instances, without bodies
	undone        map[string]time.Time // until when the replicas of a Deployment are restored by another client
	hadDeployment map[types.UID]bool   // the Foos that have controlled a Deployment
	changed       map[string]time.Time // when objects were last written, by their targets
}

func newWalk(s script, program Program) *walk {
	server := newServer()
	return &walk{
		script: s, program: program, server: server, lock: &server.lock, faults: map[string]Fault{}, undone: map[string]time.Time{},
		hadDeployment: map[types.UID]bool{}, changed: map[string]time.Time{}, reporter: map[string]*instance{},
	}
}

func init() {
	if testing.Testing() { // In a browser, the program runs as it ships.
		// The other handler limits the rate of errors since the start of the process, which is 26 years after the start of a bubble.
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
}

// inBubble runs do with a number of instances in a bubble of its own, where time advances when all wait.
func (w *walk) inBubble(t *testing.T, replicas int, do func()) *walk {
	synctest.Test(t, func(t *testing.T) {
		w.start = time.Now()
		w.failed, w.server.changed = make(chan struct{}), make(chan struct{}) // They belong to the bubble.
		w.server.runControllers()
		w.server.committed = append(w.server.committed, w.tellChange, w.undo, w.judgeCommit)
		w.server.failed = w.judgeFailure
		for range replicas {
			w.instances = append(w.instances, w.newInstance())
		}
		for n := range replicas {
			w.running.Go(func() { w.keepRunning(n) })
		}
		do()
		w.lock.Lock()
		w.over = true
		instances := w.instances
		w.lock.Unlock()
		for _, i := range instances {
			if w.hasFailed() {
				i.Break()
			}
			i.cancel()
		}
		w.running.Wait()
		w.took = time.Since(w.start)
		time.Sleep(leftoverTime) // If a goroutine is left over then, the bubble panics.
	})
	return w
}

// run takes the steps of the script, and then watches what becomes of the Foos.
func (w *walk) run() {
	for _, s := range w.script.steps {
		w.sleep(s.after)
		w.take(s)
	}
	w.sleep(3 * time.Second) // The last change of a user's mind.
	w.calm()
	w.waitUntilReconciled(convergenceTimeout)
	w.sleep(quietTime)
	w.waitUntilReconciled(soon) // A deposed leader may have written a status meanwhile. See judgeState.
	w.steadyState("nothing changes", steadyTime, func(r *Request) bool { return r.Verb != "watch" })

	w.lock.Lock()
	w.heldAtStart = restartTime / 2 // An instance leads earlier, after the Lease has expired.
	w.lock.Unlock()
	for n := range w.instances {
		w.current(n).stop(true)
	}
	w.steadyState("the instances were restarted", restartTime, (*Request).IsWrite)
	w.judgeWork()
}

// take takes a step, unless there is nothing to do.
func (w *walk) take(s step) {
	if w.hasFailed() {
		return
	}
	if what := s.kind.do(w, s); what != "" {
		w.lock.Lock()
		w.happened++
		w.lock.Unlock()
		w.tell(user, "%s", what)
	}
}

// calm ends all faults, and what users have to act on.
func (w *walk) calm() {
	w.lock.Lock()
	w.server.rules = nil
	w.calmSince, w.requestFault, w.eventLag = time.Now(), nil, nil
	clear(w.undone)
	instances := slices.Clone(w.instances)
	w.lock.Unlock()
	for _, i := range instances {
		i.Heal()
	}
	for _, foo := range w.server.snapshot(foos) {
		w.tell(user, "%s", w.change(user, "changes", foos, foo.GetName(), func(foo *object) {
			foo.SetFinalizers(slices.DeleteFunc(foo.GetFinalizers(), func(finalizer string) bool { return finalizer == holdFinalizer }))
			if deploymentNameOf(foo) == illegalName {
				setDeploymentName(foo, strings.Replace(foo.GetName(), "foo", "deployment", 1))
			}
		}))
	}
	w.tell(user, "no more actions and faults")
}

func (w *walk) waitUntilReconciled(timeout time.Duration) {
	for start := time.Now(); !w.hasFailed(); w.sleep(100 * time.Millisecond) {
		differs, delay := w.judgeState()
		if differs == "" {
			return
		}
		if time.Since(start) >= timeout+delay {
			w.violated("how soon", "%s after the last action or fault %s", timeout, differs)
		}
	}
}

// sleep lets time pass, at most until a promise is broken.
func (w *walk) sleep(duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.failed:
	}
}

// instance is a process that runs the program.
type instance struct {
	*Connection
	unobserved
	walk   *walk
	ctx    context.Context
	cancel context.CancelFunc

	knowledge
	stopped bool // by SIGTERM or SIGKILL
}

// newInstance returns a process that has not been started yet. The lock is held once others are running.
func (w *walk) newInstance() *instance {
	w.started++
	i := &instance{walk: w, knowledge: knowledge{
		since: time.Now(), objects: map[string]known{}, read: map[string]time.Time{}, acked: map[string]string{}, open: map[*Request]string{},
		again: map[string]time.Time{}, counts: map[string]int{}, failed: map[string]int{}, failedAt: map[string]time.Time{},
	}}
	i.Connection = newConnection(w.server, fmt.Sprintf("instance-%d", w.started), i)
	i.staleness, w.staleness = w.staleness, nil
	i.HoldWatch(deployments, w.heldAtStart)
	config := textlogger.NewConfig(textlogger.Output(&logWriter{i: i}))
	i.ctx, i.cancel = context.WithCancel(klog.NewContext(context.Background(), textlogger.NewLogger(config)))
	return i
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
func (l *logWriter) Write(line []byte) (int, error) {
	if text := string(line); strings.HasPrefix(text, "E") && strings.Contains(text, "panic") {
		l.i.walk.violated("health", "%s panics: %s", l.i.client, text)
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if now := time.Now(); l.at != now {
		l.at, l.lines = now, 0
	}
	l.lines++
	if l.lines == maxLines {
		l.i.walk.violated("how often", "%s logs without end: %s", l.i.client, line)
		l.i.stop(true)
	}
	return len(line), nil
}

// keepRunning runs the program, again and again, as the nth replica.
func (w *walk) keepRunning(n int) {
	for {
		i := w.current(n)
		w.tell(i.client, "starts")
		err := w.program(i.ctx, i.config())
		i.Break()
		i.cancel() // What the program has left running ends, as with the process.
		w.judgeExit(i, err)
		w.sleep(restartDelay)
		w.lock.Lock()
		over := w.over || w.hasFailed()
		if !over {
			w.instances[n] = w.newInstance()
		}
		w.lock.Unlock()
		if over {
			return
		}
	}
}

// current returns the process of the nth replica.
func (w *walk) current(n int) *instance {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.instances[n%len(w.instances)]
}

// instance returns the current process with a name, or nil. The lock is held.
func (w *walk) instance(client string) *instance {
	for _, i := range w.instances {
		if i.client == client {
			return i
		}
	}
	return nil
}

// stop stops a process as SIGTERM does or, if it is killed, as SIGKILL does.
func (i *instance) stop(kill bool) {
	i.walk.lock.Lock()
	i.stopped = true
	i.walk.lock.Unlock()
	if kill {
		i.Break()
	}
	i.cancel()
}

// Request implements Observer: it judges a request, decides what happens to it, and records that.
func (i *instance) Request(r *Request) (f Fault, responded func(*object, error)) {
	i.sent(r)
	w := i.walk
	w.lock.Lock()
	id := i.id(strings.TrimSuffix(r.Verb+" "+r.target()+" "+r.Subresource, " "))
	if w.requestFault != nil {
		f = w.requestFault(id, r)
	}
	if f.what != "" {
		w.faults[id] = f
		w.happened++
		w.tell(r.client, "%s: %s", r, f.what)
	}
	w.lock.Unlock()
	if f.kill && !f.Lost {
		i.stop(true)
	}
	return f, func(result *object, err error) {
		i.responded(r, result, err)
		if f.kill {
			i.stop(true)
		}
	}
}

// id returns the name of the next request or event of a kind. It does not depend on those of other kinds. The lock is held.
func (i *instance) id(kind string) string {
	i.counts[kind]++
	return fmt.Sprintf("%s %s #%d", i.client, kind, i.counts[kind])
}

// Lag implements Observer.
func (i *instance) Lag(event string) (lag time.Duration) {
	w := i.walk
	w.lock.Lock()
	defer w.lock.Unlock()
	id := i.id(event)
	if w.eventLag != nil {
		lag = w.eventLag(id)
	}
	if lag > 0 {
		w.tell("network", "%s takes %s", id, lag)
	}
	return lag
}

// tellChange tells what others than users have written: what users do is told as a step.
func (w *walk) tellChange(c change) {
	r := c.request
	switch {
	case r.client == user, r.client == storage, r.Resource == events:
	case r.Resource == leases:
		switch before, after := holderOf(c.old), holderOf(c.new); {
		case before != "" && after == "":
			w.tell(r.client, "releases the Lease")
		case before != after:
			w.tell(r.client, "holds the Lease now")
		}
	case r.client == deploymentController:
		available, desired := number(c.new, "status", "availableReplicas"), number(c.new, "spec", "replicas")
		w.tell(r.client, "%s: %d of %d replicas available", r.target(), available, desired)
	default:
		w.tell(r.client, "%s: resourceVersion %d", r, c.resourceVersion)
	}
}

// undoChanges makes another client undo what the instances change of the replicas of a Deployment, for some time.
func (w *walk) undoChanges(name string, duration time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.undone[name] = time.Now().Add(duration)
}

// undo makes another client restore the replicas of a Deployment that an instance has changed.
func (w *walk) undo(c change) {
	isUndone := w.undone[c.request.Name].After(time.Now())
	if !isInstance(c.request.client) || c.request.Resource != deployments || c.eventType != watch.Modified || !isUndone {
		return
	}
	before := number(c.old, "spec", "replicas")
	if number(c.new, "spec", "replicas") == before {
		return
	}
	time.AfterFunc(20*time.Millisecond, func() {
		w.tell(user, "%s", w.change(user, "undoes that:", deployments, c.request.Name, func(d *object) { setReplicas(d, before) }))
	})
}
