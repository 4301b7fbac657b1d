// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lesson is something that happens to a controller of Foos, and what has to become of it. The nth stage of the tutorial has learned the
// first n lessons.
type Lesson struct {
	Title     string
	instances int
	judged    string // the promise that is judged at each write, or nothing
	run       func(w *walk)
}

// Lessons are those of the tutorial.
var Lessons = []Lesson{
	{"A Foo is created, and scaled", 1, "", func(w *walk) {
		w.createAndWait(0)
		w.act("scale", 0, 2)
		w.expect(30*time.Second, "the Deployment of the Foo is not scaled", func() bool { return w.hasReplicas(0, 3) })
	}},
	{"Nothing happens for an hour, and then a Foo is created", 1, "", func(w *walk) {
		w.createAndWait(0)
		since := time.Now()
		w.sleep(time.Hour)
		w.atMost(10, since, "although nothing happens", func(r *Request) bool { return r.Verb != "watch" && r.Resource != leases })
		w.act("create", 1, nameCount+1)
		w.expect(soon, "the second Foo has no Deployment", func() bool { return w.deployment(1) != nil })
	}},
	{"A write fails", 1, "", func(w *walk) {
		w.sleep(soon)
		w.fail(1, "create", deployments, errInjected)
		w.act("create", 0, nameCount)
		w.expect(10*soon, "the Foo has no Deployment", func() bool { return w.deployment(0) != nil })
		createAgain := func(errors int, timeout time.Duration) {
			w.fail(errors, "create", deployments, errInjected)
			w.act("deleteDeployment", 0, 0)
			w.act("scale", 0, errors)
			w.expect(timeout, "the Deployment is not created again", func() bool { return w.deployment(0) != nil })
		}
		createAgain(12, time.Minute) // The delays add up to 20 s.
		createAgain(1, 10*soon)      // They start again after a success.
		since := time.Now()
		w.fail(1000, "create", deployments, errInjected)
		w.act("create", 1, nameCount+1)
		w.sleep(time.Minute)
		w.atMost(20, since, "after errors", writesDeployments)
	}},
	{"The Deployment is deleted, and scaled", 1, "", func(w *walk) {
		w.createAndWait(0)
		w.sleep(time.Minute)
		w.act("deleteDeployment", 0, 0)
		w.expect(5*soon, "the Deployment that was deleted is not created again", func() bool { return w.deployment(0) != nil })
		w.sleep(time.Minute)
		w.act("scaleDeployment", 0, 4)
		w.expect(5*soon, "the Deployment is not scaled back", func() bool { return w.hasReplicas(0, 1) })
	}},
	{"The name is taken", 1, "what a write finds", func(w *walk) {
		w.createAndWait(0)
		w.act("orphan", 0, 0)
		w.act("scale", 0, 2)
		w.sleep(time.Minute)
		w.act("deleteDeployment", 0, 0)
		w.expect(5*soon, "the name is free, and the Foo has no Deployment", func() bool {
			d := w.deployment(0)
			return d != nil && metav1.IsControlledBy(d, w.get(foos, fooName(0)))
		})
		w.act("recreate", 0, 0)
		w.expect(5*soon, "the Foo that was created again has no Deployment of its own", func() bool {
			d := w.deployment(0)
			return d != nil && metav1.IsControlledBy(d, w.get(foos, fooName(0))) && d.GetDeletionTimestamp() == nil
		})
	}},
	{"The cache is stale", 1, "", func(w *walk) {
		w.sleep(soon)
		since := time.Now()
		w.current(0).HoldWatch(deployments, 10*time.Second)
		w.tell(user, "delays the watch of deployments by 10s")
		w.act("create", 0, nameCount)
		w.sleep(soon)
		w.act("scale", 0, 1)
		w.sleep(9 * time.Second)
		w.atMost(1, since, "to create a Deployment, because the cache does not have it", func(r *Request) bool {
			return r.Verb == "create" && r.Resource == deployments
		})
		w.sleep(time.Minute)
		w.fail(1, "update", deployments, errInjected)
		w.act("scale", 0, 2)
		w.expect(10*soon, "the Foo is not scaled after an error", func() bool { return w.hasReplicas(0, 3) })
	}},
	{"A user looks at the Foo", 1, "", func(w *walk) {
		w.createAndWait(0)
		w.expect(5*soon, "the status of the Foo does not say that it is available", func() bool {
			foo := w.get(foos, fooName(0))
			return w.availableReplicas(0) == 1 && number(foo, "status", "observedGeneration") == foo.GetGeneration()
		})
		w.sleep(time.Minute)
		since := time.Now()
		annotated := w.get(foos, fooName(0)).DeepCopy()
		annotated.SetAnnotations(map[string]string{"note": "a user's"})
		_ = w.server.write(user, "update", foos, annotated, annotated) // Nobody else writes.
		w.tell(user, "annotates Foo %s", fooName(0))
		w.sleep(time.Minute)
		w.atMost(0, since, "although the status is the same", func(r *Request) bool { return r.Resource == foos && r.IsWrite() })
	}},
	{"Two instances run", 2, "", func(w *walk) {
		w.createAndWait(0)
		since := time.Now()
		w.act("scale", 0, 1)
		w.expect(5*soon, "the Deployment of the Foo is not scaled", func() bool { return w.hasReplicas(0, 2) })
		w.sleep(5 * soon)
		if w.hasFailed() {
			return
		}
		leader := w.requested(since, writesDeployments)[0].client
		isOther := func(r *Request) bool { return writesDeployments(r) && r.client != leader }
		if len(w.requested(since, isOther)) > 0 {
			w.violated("one leader", "both instances write the Deployment")
			return
		}
		w.lock.Lock()
		i := w.instance(leader)
		w.lock.Unlock()
		if i == nil {
			w.violated("health", "%s has ended", leader)
			return
		}
		w.tell(user, "freezes the network of %s for 1m", leader)
		i.HoldWatch(all, time.Minute)
		w.act("scale", 0, 4)
		w.expect(30*soon, "no other instance takes over", func() bool { return w.hasReplicas(0, 5) })
		since = time.Now()
		w.sleep(time.Minute)
		w.atMost(0, since, "of "+leader+", although it does not hold the Lease", func(r *Request) bool {
			return writesDeployments(r) && r.client == leader
		})
	}},
	{"The Deployment is renamed, and its replicas are undone", 1, "what a deletion finds", func(w *walk) {
		w.createAndWait(0)
		w.act("rename", 0, 1)
		w.expect(10*soon, "the superseded Deployment is still there", func() bool { return w.deployment(0) == nil && w.deployment(1) != nil })
		w.undoChanges(deploymentName(1), 10*time.Minute)
		since := time.Now()
		w.act("scale", 0, 2)
		w.sleep(10 * time.Minute)
		w.atMost(20, since, "that are undone", writesDeployments)
	}},
}

// Give gives a lesson to a program, and returns the story. If the program has broken the promise, the story ends with that, and broken is
// which one it is.
func (l Lesson) Give(t *testing.T, program Program) (story, broken string) {
	w := newWalk(script{}, program)
	w.judged = []string{"how soon", "how often", "one leader", "health", l.judged}
	w.inBubble(t, l.instances, func() { l.run(w) })
	if w.violation != nil {
		broken = w.violation.promise
	}
	return w.tale(), broken
}

// deployment returns the Deployment of a number, or nil.
func (w *walk) deployment(n int) *object { return w.get(deployments, deploymentName(n)) }

// hasReplicas reports whether a Deployment exists and desires a number of replicas.
func (w *walk) hasReplicas(n int, replicas int64) bool {
	return number(w.deployment(n), "spec", "replicas") == replicas
}

// createAndWait creates a Foo with one replica, and waits until its Deployment is available.
func (w *walk) createAndWait(n int) {
	w.act("create", n, nameCount+n)
	w.expect(30*time.Second, "Foo "+fooName(n)+" has no Deployment that is available", func() bool { return w.isAvailable(n) })
}
