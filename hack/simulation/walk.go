// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	"k8s.io/sample-controller/hack/simulation/recording"
)

const (
	// convergenceTimeout is how long it may take, after the last action or fault, until the last write, beside a retry delay.
	convergenceTimeout = 2 * time.Minute
	// quietTime is how long nothing is written until all is taken to be reconciled, and settleTime how long that may take.
	quietTime, settleTime = 3 * time.Minute, 40 * time.Minute
	// startTime is how long a program may take to begin, beside an election.
	startTime = 30 * time.Second
	// leftoverTime is how long what a process has left running may take to notice that all its connections are broken.
	leftoverTime = 10 * time.Minute
	// idleTime is how long nothing but time passes at least for a walk to be idle.
	idleTime = 20 * time.Second
)

// walk is one run of a script, or of a trial, in a cluster of its own.
type walk struct {
	*tester
	story
	script  script
	trial   *Trial // or nil
	server  *apiserver.Server
	user    apiserver.Client
	bubble  string
	took    time.Duration
	running sync.WaitGroup
	moments atomic.Int64 // how many have passed: see judgeMoments

	// lock guards the rest, and what the instances know. It may be taken while the API server is locked, but not the other way round.
	lock sync.Mutex
	record
	judges        []judge
	instances     []*instance   // the current process of each replica
	started       int           // how many processes were started
	stale         stale         // what the next process sees
	heldAtStart   time.Duration // for how long the watches of each new process are held, but for those of the users' kinds
	over          bool
	requestFault  func(id string, r *apiserver.Request) fault
	eventLag      func(event string) time.Duration
	calmSince     time.Time               // Since then no fault happens.
	faultsChanged time.Time               // when the last fault has begun or ended
	isHidden      bool                    // A fault that lasts for hours keeps the program from reporting.
	hiddenUntil   time.Time               // when the program has reported, after such a fault, what was so
	late          map[reference]time.Time // when a resync has corrected the status that one of two leaders has written
	happened      int                     // how many actions and faults
	faults        map[string]fault
	undone        map[reference]*undoing
	isIdle        bool
	isLong        bool // A fault lasts for hours.
	// leaseDurations are how long others respect each Lease. Some programs set a shorter time when they release it.
	leaseDurations map[types.NamespacedName]time.Duration
}

func newWalk(all *tester, s script) *walk {
	w := &walk{
		tester: all, script: s, record: newRecord(), faults: map[string]fault{}, undone: map[reference]*undoing{}, late: map[reference]time.Time{},
		leaseDurations: map[types.NamespacedName]time.Duration{},
		story:          story{exempt: slices.Clone(all.Exempt), broken: map[Promise]*violation{}},
	}
	for _, promise := range strictPromises {
		if !slices.Contains(all.Strict, promise) {
			w.exempt = append(w.exempt, promise)
		}
	}
	w.judges = newJudges(w)
	return w
}

func init() {
	if testing.Testing() {
		// The other handler limits the rate of errors since the start of the process, which is 26 years after the start of a bubble.
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
}

// inBubble runs the walk in a bubble of its own, where time advances when all wait.
func (w *walk) inBubble(t *testing.T) {
	defer w.watchdog(t)()
	defer func() {
		if leftover := recover(); leftover != nil {
			w.judgeLeftover(leftover)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w.bubble = bubbleOfCaller()
		inBubbles.Store(w.bubble, w)
		defer inBubbles.Delete(w.bubble)
		w.begin(w.Instances, w.createOthers)
		w.run()
		w.end()
		time.Sleep(leftoverTime) // If a goroutine is left over then, the bubble panics.
	})
}

// begin starts a cluster, and a number of instances in it once it is prepared, in the bubble of the caller.
func (w *walk) begin(replicas int, prepare func()) {
	w.start, w.ended = time.Now(), make(chan struct{})
	w.server = apiserver.New(w.registry, apiserver.Options{Without: w.Without, Mutate: w.Mutate, Validate: w.Validate, UnknownField: true})
	w.user = w.server.Client(user)
	if w.isRecorded {
		w.recorder = recording.New()
		w.server.Observe(w.recorder)
	}
	w.server.Observe(w)
	if prepare != nil {
		prepare()
	}
	for range replicas {
		w.instances = append(w.instances, w.newInstance())
	}
	for n := range replicas {
		w.running.Go(func() { w.keepRunning(n) })
	}
	w.running.Go(w.judgeMoments)
}

// createOthers creates what is there from the beginning.
func (w *walk) createOthers() {
	for _, example := range w.others {
		o, resource := example.DeepCopy(), w.server.ForKind(example.GroupVersionKind().GroupKind())
		if resource == nil {
			w.violated(simulated, "%s %s is of a kind that no CRD defines: add its CRD", o.GroupVersionKind(), o.GetName())
			continue
		}
		if resource.Namespaced && o.GetNamespace() == "" {
			o.SetNamespace("default")
		}
		if err := w.createWithStatus(o); err != nil {
			w.violated(simulated, "the example %s %s cannot be created: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// createWithStatus creates an object and, if it has a status, sets that, as a controller would that does not run.
func (w *walk) createWithStatus(o *object) error {
	created, err := w.user.Create(o)
	if status := o.Object["status"]; err == nil && status != nil && w.server.ForKind(o.GroupVersionKind().GroupKind()).HasStatus {
		created.Object["status"] = status
		_, err = w.user.Update(created, "status")
	}
	return err
}

// given returns what is there from the beginning under the name of an object, or nil.
func (w *walk) given(o *object) *object {
	for _, example := range w.others {
		if example.GroupVersionKind() == o.GroupVersionKind() && example.GetName() == o.GetName() {
			return example
		}
	}
	return nil
}

// end ends all instances.
func (w *walk) end() {
	w.lock.Lock()
	w.over = true
	instances := slices.Clone(w.instances)
	w.lock.Unlock()
	for _, i := range instances {
		i.onceSynced(func() {
			if w.isEnded() {
				i.Break()
			}
			i.cancel()
		})
	}
	w.running.Wait()
	w.took = time.Since(w.start)
}

// run walks through the parts, in an order in which none hides what a later one would show.
func (w *walk) run() {
	if w.trial != nil {
		w.trial.Run(&Walk{w})
		return
	}
	parts := []func(){
		w.takeSteps, w.longFault, w.settle, w.silence, w.restart, w.judgeWork, w.judgeEnd, w.compare,
	}
	for _, p := range w.script.probes {
		if !slices.Contains(w.exempt, p.promise) {
			parts = append(parts, func() { p.try(w) })
		}
	}
	for n, part := range parts {
		if w.isEnded() || w.script.until > 0 && n > w.script.until {
			return
		}
		w.enter(n)
		part()
	}
}

func (w *walk) takeSteps() {
	for _, s := range w.script.steps {
		w.sleep(s.after)
		w.take(s)
	}
	w.sleep(mindTime) // The last change of a user's mind.
	w.calm()
}

// take takes a step, unless there is nothing to do.
func (w *walk) take(s step) {
	if w.isEnded() {
		return
	}
	if what := s.action.take(w, s); what != "" {
		w.lock.Lock()
		w.happened++
		w.lock.Unlock()
		w.tell(user, what)
	}
}

// calm ends all faults, and what users have to act on.
func (w *walk) calm() {
	w.server.ClearRules()
	w.lock.Lock()
	if w.isHidden {
		w.hiddenUntil = time.Now().Add(max(w.Resync, maxRetryDelay))
	}
	w.calmSince, w.faultsChanged, w.requestFault, w.eventLag, w.isHidden = time.Now(), time.Now(), nil, nil, false
	clear(w.undone)
	instances := slices.Clone(w.instances)
	for _, i := range instances {
		clear(i.staleUntil)
	}
	w.lock.Unlock()
	for _, i := range instances {
		i.Heal()
	}
	w.release()
	w.takeBack()
	w.tell(user, "no more actions and faults")
}

// sleep lets time pass, at most until the walk ends. A trial is about certain times, and never idle.
func (w *walk) sleep(duration time.Duration) {
	if duration >= idleTime && w.trial == nil {
		defer w.idle()()
	}
	w.story.sleep(duration)
}

// idle lets the requests for Leases take longer while nothing but time passes, and an instance leads or a long fault may keep all from it, so
// that there are fewer of them: most requests of a walk renew a Lease. It returns what ends that.
func (w *walk) idle() (end func()) {
	set := func(isIdle bool) {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.isIdle = isIdle
	}
	set(true)
	return func() { set(false) }
}

// hasLeader reports whether a process leads. The lock is held.
func (w *walk) hasLeader() bool {
	return slices.ContainsFunc(w.instances, func(i *instance) bool { return i.leads && !i.stopped })
}

// electionTime returns how long it takes at most until another instance leads after the leader was killed: the Lease has to expire, and candidates
// try again from time to time only. It is 0 for a program that elects none. The lock is held.
func (w *walk) electionTime() (longest time.Duration) {
	for _, duration := range w.leaseDurations {
		longest = max(longest, duration*3/2)
	}
	return longest
}

// orElection returns a time, or that of an election if it is longer.
func (w *walk) orElection(duration time.Duration) time.Duration {
	w.lock.Lock()
	defer w.lock.Unlock()
	return max(duration, w.electionTime())
}

// settle waits until nothing is written any more, and nothing waits for a retry, and judges when the last write was.
func (w *walk) settle() {
	defer w.idle()()
	calm := time.Now()
	due := calm // since when writes have been due: what one does may make another one possible, about something else
	for last := calm; !w.isEnded() && (time.Since(last) < w.orElection(quietTime) || w.retries()); {
		w.sleep(time.Second)
		timeout := w.orElection(convergenceTimeout)
		w.lock.Lock()
		for _, r := range w.sentSince(last, w.isCorrection) {
			last = r.Sent.Add(time.Nanosecond)
			for _, at := range []time.Time{r.due, w.late[r.ref], w.goneAt(r)} {
				if at.After(due) {
					due = at
				}
			}
			if last.Sub(due) > timeout {
				w.violated(Soon, "%s after the last action or fault %s still writes: %s", last.Sub(calm).Round(time.Millisecond), r.Client, r)
			}
		}
		isOver := time.Since(calm) > settleTime
		if isOver {
			w.violated(Silence, "%s after the last action or fault there are still writes, %s", settleTime, w.mostFrequent(calm, w.isCorrection))
		}
		w.lock.Unlock()
		if isOver {
			return
		}
	}
}

// lateUntil returns until when a status may wait for a resync. The lock is held.
func (w *walk) lateUntil() (until time.Time) {
	for _, at := range w.late {
		if at.After(until) {
			until = at
		}
	}
	return until
}

// goneAt returns since when what a request creates was gone, if the garbage collector or a user has deleted it. The lock is held.
func (w *walk) goneAt(r *request) (gone time.Time) {
	if r.Verb != "create" {
		return gone
	}
	for _, at := range w.changedAt[r.ref.String()] {
		if at.Before(r.Sent) {
			gone = at // The last change of what does not exist was its deletion.
		}
	}
	return gone
}

// isLate reports whether the status of an object may wait for a resync. The lock is held.
func (w *walk) isLate(ref reference) bool { return time.Now().Before(w.late[ref]) }

// retries reports whether an instance may wait for a retry.
func (w *walk) retries() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, i := range w.instances {
		for _, f := range i.failures {
			if f.until().Add(soonTime).After(time.Now()) {
				return true
			}
		}
	}
	return false
}

// Committed implements apiserver.Observer.
func (w *walk) Committed(c *apiserver.Change) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.recordCommit(c)
	w.tellChange(c)
	w.undo(c)
	if c.Request.Resource == leases {
		key := c.Request.Key()
		w.leaseDurations[key] = max(w.leaseDurations[key], time.Duration(number(c.New, "spec", "leaseDurationSeconds"))*time.Second)
	}
	i := w.instanceOf(c.Request.Client)
	if i == nil {
		return
	}
	if r := i.open[c.Request]; r != nil {
		r.isVain = c.Admitted || w.isUndone(c)
	}
	if c.Request.Subresource == "status" && w.isUsers(c.Request.Resource) && slices.ContainsFunc(w.instances, i.isRival) {
		w.late[w.referenceTo(c.New)] = time.Now().Add(w.resyncTime()) // Who leads need not notice it: see Restored.
	}
	for _, j := range w.judges {
		if j.committed != nil {
			j.committed(i, c)
		}
	}
}

// Failed implements apiserver.Observer.
func (w *walk) Failed(r *apiserver.Request, found *object, err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if strings.Contains(err.Error(), "not simulated") {
		w.violated(simulated, "%s: %v", r, err)
	}
	i := w.instanceOf(r.Client)
	if i == nil || i.open[r] == nil || r.IsDryRun() {
		return
	}
	for _, j := range w.judges {
		if j.failed != nil {
			j.failed(i, i.open[r], found, err)
		}
	}
}

// tellChange tells what others than users have written: what users do is told as a step. The lock is held.
func (w *walk) tellChange(c *apiserver.Change) {
	r := c.Request
	switch {
	case r.Client == user, isEvent(r.Resource):
	case r.Resource == leases:
		switch before, after := holderOf(c.Old), holderOf(c.New); {
		case before != "" && after == "":
			w.tell(r.Client, "releases the Lease")
		case before != after:
			w.tell(r.Client, "holds the Lease now")
		}
	case !isInstance(r.Client) && r.Resource == pods:
		ref, phase := w.referenceTo(c.New).String(), text(c.New, "status", "phase")
		if c.New.GetDeletionTimestamp() != nil {
			phase = "Terminating"
		}
		progress := ref
		if w.isOfWorkload(c.New) {
			progress = w.aboutObject(w.referenceTo(c.New), c.New) // It is part of the rollout.
		}
		w.add(line{who: r.Client, what: ref + ": " + phase, progress: progress, kind: recording.Stored})
	case !isInstance(r.Client) && r.Subresource == "status":
		ref := w.referenceTo(c.New).String()
		available, desired := number(c.New, "status", "availableReplicas"), number(c.New, "spec", "replicas")
		if c.New.GetKind() == "DaemonSet" {
			available, desired = number(c.New, "status", "numberAvailable"), number(c.New, "status", "desiredNumberScheduled")
		}
		progress := fmt.Sprintf("%s: %d of %d replicas available", ref, available, desired)
		w.add(line{who: r.Client, what: progress, progress: ref, kind: recording.Stored})
	default:
		w.add(line{who: r.Client, what: fmt.Sprintf("%s: resourceVersion %d", r, c.ResourceVersion), kind: recording.Stored})
	}
}
