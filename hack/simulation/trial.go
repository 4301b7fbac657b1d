// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// Trial is a walk in which one certain thing happens, for as long or as often as no random walk has it.
type Trial struct {
	Name      string
	Instances int       // how many instances of the program run: 1 if it is 0
	Judged    []Promise // which promises are judged: all that are judged in random walks if it is nil
	Run       func(w *Walk)
}

// Walk is the walk of a trial. Its methods are what users and operators do, and what they expect. What users do to an object that does not
// exist, or that does not change, they do not do. The first broken promise ends the walk: then no method waits any more.
type Walk struct{ walk *walk }

// Reference is where an object is.
type Reference = reference

// Refer returns where the object of a name is.
func Refer(resource schema.GroupResource, namespace, name string) Reference {
	return reference{resource, types.NamespacedName{Namespace: namespace, Name: name}}
}

// Try has a program go through a trial, and returns the story. If a promise is broken, the story ends with that, and broken is its name.
func (c Config) Try(t *testing.T, trial Trial) (story string, broken Promise) {
	all, err := newTester(c)
	if err != nil {
		t.Fatal(err)
	}
	story, v := all.try(t, trial)
	if v != nil {
		broken = v.promise
	}
	return story, broken
}

func (all *tester) try(t *testing.T, trial Trial) (story string, broken *violation) {
	w := all.newTrial(trial)
	w.inBubble(t)
	for _, v := range w.broken {
		return v.tale(), v // It is the only one.
	}
	return join(w.lines), nil
}

// newTrial returns the walk of a trial.
func (all *tester) newTrial(trial Trial) *walk {
	config := all.Config
	config.Instances = cmp.Or(trial.Instances, 1)
	own := &tester{Config: config, registry: all.registry, kinds: all.kinds, others: all.others, sums: all.sums}
	w := newWalk(own, script{name: fmt.Sprintf("the trial %q", trial.Name)})
	w.trial, w.judged, w.stopAt = &trial, trial.Judged, anyPromise
	return w
}

// testTrials runs the trials, and tells the stories of those in which a promise is broken.
func (all *tester) testTrials(t *testing.T) {
	for _, trial := range all.Trials {
		t.Run(trial.Name, func(t *testing.T) {
			if !all.Serial {
				t.Parallel()
			}
			if story, broken := all.try(t, trial); broken != nil {
				story += all.record(t, broken.promise, trial.Name, func() *walk { return all.newTrial(trial) })
				all.sums.tell(fmt.Sprintf("%s\n%s", broken, story))
				t.Errorf("%s\n%s\nrepeat it with: %s", broken, story, commandFor(t))
			}
		})
	}
}

// Get returns a copy of an object, or nil if there is none.
func (w *Walk) Get(ref Reference) *apiserver.Object { return w.walk.get(ref) }

// List returns copies of the objects of a resource in all namespaces.
func (w *Walk) List(resource schema.GroupResource) []*apiserver.Object {
	return w.walk.server.List(resource, "")
}

// Events returns how many events there were with a reason.
func (w *Walk) Events(reason string) (n int) {
	for _, event := range w.List(schema.GroupResource{Resource: "events"}) {
		if event.Object["reason"] == reason {
			n += int(number(event, "count"))
		}
	}
	return n
}

// Tell adds a line to the story: what a user does.
func (w *Walk) Tell(what string) { w.walk.tell(user, what) }

// Create creates an object.
func (w *Walk) Create(o *apiserver.Object) {
	if _, err := w.walk.user.Create(o); err != nil {
		w.walk.violated(simulated, "a user cannot create %s: %v", describe(o), err)
		return
	}
	w.Tell("creates " + describe(o))
}

// Change changes an object. verb tells how.
func (w *Walk) Change(ref Reference, verb string, do func(o *apiserver.Object)) {
	w.Tell(w.walk.change(ref, func(o *object) string { do(o); return verb }))
}

// SetField sets a field of an object. Its path is one like spec.template.spec.containers[name=web].image.
func SetField(o *apiserver.Object, path string, value any) {
	for _, f := range fieldsOf(o) {
		if f.name == path {
			f.set(value)
			return
		}
	}
	setField(o, value, strings.Split(path, ".")...)
}

// Store changes an object without validation, as if an older API server had stored it so.
func (w *Walk) Store(ref Reference, do func(o *apiserver.Object)) {
	if o := w.Get(ref); o != nil {
		do(o)
		if err := w.walk.user.Store(o); err != nil {
			w.walk.violated(simulated, "%s cannot be stored: %v", describe(o), err)
		}
		w.Tell("stores, without validation, " + describe(o))
	}
}

// Delete deletes an object.
func (w *Walk) Delete(ref Reference, policy metav1.DeletionPropagation) {
	w.Tell(w.walk.delete(ref, policy))
}

// Recreate deletes an object and creates it again, before the garbage collector deletes what it owns.
func (w *Walk) Recreate(ref Reference) { w.Tell(w.walk.recreate(ref, func(*object) {})) }

// Sleep lets time pass.
func (w *Walk) Sleep(duration time.Duration) { w.walk.sleep(duration) }

// IsEnded reports whether a promise is broken.
func (w *Walk) IsEnded() bool { return w.walk.isEnded() }

// Violated says that a promise is broken. The format is that of fmt.Sprintf.
func (w *Walk) Violated(promise Promise, format string, args ...any) {
	w.walk.violated(promise, format, args...)
}

// Expect waits until something is so. Otherwise, the promise Soon is broken.
func (w *Walk) Expect(timeout time.Duration, otherwise string, is func() bool) {
	for start := time.Now(); !w.IsEnded() && !is(); w.Sleep(10 * time.Millisecond) {
		if time.Since(start) > timeout {
			w.Violated(Soon, "after %s, %s", timeout, otherwise)
		}
	}
}

// Requested returns the requests of the program since a time that count. Those for its Lease, and for events, are none of them.
func (w *Walk) Requested(since time.Time, counts func(r *apiserver.Request) bool) (made []*apiserver.Request) {
	for _, r := range w.walk.requested(since, func(r *request) bool { return counts(r.Request) }) {
		made = append(made, r.Request)
	}
	return made
}

// AtMost limits how many of the program's requests since a time count. Otherwise, the promise BoundedWork is broken.
func (w *Walk) AtMost(limit int, since time.Time, what string, counts func(r *apiserver.Request) bool) {
	if n := len(w.Requested(since, counts)); n > limit {
		w.Violated(BoundedWork, "%d requests in %s %s", n, time.Since(since), what)
	}
}

// Instance returns the name of the nth instance that runs now.
func (w *Walk) Instance(n int) string { return w.walk.current(n).name }

// instance returns an instance that runs, or nil after it has told that it does not.
func (w *Walk) instance(name string) *instance {
	w.walk.lock.Lock()
	i := w.walk.instanceOf(name)
	w.walk.lock.Unlock()
	if i == nil {
		w.Violated(Health, "%s has ended", name)
	}
	return i
}

// Kill kills an instance, and Terminate terminates it. Another one is started a second after it has ended.
func (w *Walk) Kill(instance string) {
	if i := w.instance(instance); i != nil {
		w.Tell(i.kill())
	}
}

// Terminate terminates an instance.
func (w *Walk) Terminate(instance string) {
	if i := w.instance(instance); i != nil {
		w.Tell(i.terminate())
	}
}

// Hold delays what the watches of a resource would tell an instance or, of apiserver.AllResources, freezes its network.
func (w *Walk) Hold(instance string, resource schema.GroupResource, duration time.Duration) {
	if i := w.instance(instance); i != nil {
		w.Tell(i.hold(resource, duration))
	}
}

// Cut ends the watches of a resource of an instance. For a while, none begins, and what happens meanwhile is compacted.
func (w *Walk) Cut(instance string, resource schema.GroupResource, duration time.Duration) {
	if i := w.instance(instance); i != nil {
		w.Tell(i.cutWatch(resource, duration))
	}
}

// HandLeaseOver makes another program the holder of the Lease, and ClearLease makes nobody its holder.
func (w *Walk) HandLeaseOver() { w.Tell(w.walk.handLeaseOver()) }

// ClearLease makes nobody the holder of the Lease.
func (w *Walk) ClearLease() { w.Tell(w.walk.clearLease()) }

// FailNext makes the next requests of the program of a verb, for a resource and not for a subresource of it, fail.
func (w *Walk) FailNext(n int, verb string, resource schema.GroupResource, err error) {
	w.walk.tell("API server", fmt.Sprintf("fails %d of the next requests to %s %s", n, verb, resource.Resource))
	var first sync.Once
	w.walk.failNext(n, err, func(r *apiserver.Request) bool {
		if r.Verb != verb || r.Resource != resource || r.Subresource != "" {
			return false
		}
		first.Do(func() { w.walk.tell(r.Client, fmt.Sprintf("%s: %v", r, err)) })
		return true
	})
}

// Reject makes requests of the program fail for a while.
func (w *Walk) Reject(what string, duration time.Duration, err error, matches func(r *apiserver.Request) bool) {
	w.Tell(w.walk.addRule(what, duration, rejecting(func(*apiserver.Request) error { return err }, matches)))
}

// Admit makes admission change, for a while, what the program writes.
func (w *Walk) Admit(what string, duration time.Duration, matches func(r *apiserver.Request) bool, mutate func(o *apiserver.Object)) {
	w.Tell(w.walk.addRule(what, duration, apiserver.Rule{
		Matches: matches, Admit: func(_ *apiserver.Request, o *object) error { mutate(o); return nil },
	}))
}

// RejectPods makes new Pods of a workload fail for a while.
func (w *Walk) RejectPods(ref Reference, duration time.Duration) {
	w.Tell(w.walk.refusePods(ref, duration))
}

// Undo makes another client undo, for a while, what the program changes of an object.
func (w *Walk) Undo(ref Reference, duration time.Duration) {
	w.Tell(w.walk.undoChanges(ref, duration))
}

// Delay makes requests of the program take longer, from now on.
func (w *Walk) Delay(delay time.Duration, matches func(r *apiserver.Request) bool) {
	w.walk.delayRequests(delay, matches)
}

// Hide says whether something keeps the program from reporting what is so: meanwhile, Truth is not judged.
func (w *Walk) Hide(hidden bool) { w.walk.setHidden(hidden) }
