// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"slices"
	"time"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// Lessons are those of the tutorial: what happens to a controller of Foos, and what has to become of it. The nth stage has learned the first
// n lessons.
var Lessons = []simulation.Trial{
	lesson("A Foo is created, and scaled", func(w walk) {
		w.createAndWait()
		w.scale(0, 3)
		w.Expect(30*time.Second, "the Deployment of the Foo is not scaled", func() bool { return w.hasReplicas(0, 3) })
	}),
	lesson("Nothing happens for an hour, and then a Foo is created", func(w walk) {
		w.createAndWait()
		since := time.Now()
		w.Sleep(time.Hour)
		w.AtMost(10, since, "although nothing happens", func(r *apiserver.Request) bool { return r.Verb != "watch" })
		w.create(1, 1, 1)
		w.Expect(soon, "the second Foo has no Deployment", func() bool { return w.deployment(1) != nil })
	}),
	lesson("A write fails", func(w walk) {
		w.Sleep(soon)
		w.FailNext(1, "create", deployments, errInjected)
		w.create(0, 0, 1)
		w.Expect(10*soon, "the Foo has no Deployment", func() bool { return w.deployment(0) != nil })
		createAgain := func(errors int, replicas int64, timeout time.Duration) {
			w.Sleep(soon) // A conflict, which is an error too, has been retried.
			w.FailNext(errors, "create", deployments, errInjected)
			w.deleteDeployment(0)
			w.scale(0, replicas)
			w.Expect(timeout, "the Deployment is not created again", func() bool { return w.deployment(0) != nil })
		}
		createAgain(12, 3, time.Minute) // The delays add up to 20 s.
		createAgain(1, 2, 10*soon)      // They start again after a success.
		since := time.Now()
		w.FailNext(1000, "create", deployments, errInjected)
		w.create(1, 1, 1)
		w.Sleep(time.Minute)
		w.AtMost(20, since, "after errors", writesDeployments)
	}),
	lesson("The Deployment is deleted, and scaled", func(w walk) {
		w.createAndWait()
		w.Sleep(time.Minute)
		w.deleteDeployment(0)
		w.Expect(5*soon, "the Deployment that was deleted is not created again", func() bool { return w.deployment(0) != nil })
		w.Sleep(time.Minute)
		w.scaleDeployment(0, 4)
		w.Expect(5*soon, "the Deployment is not scaled back", func() bool { return w.hasReplicas(0, 1) })
	}),
	lesson("The name is taken", func(w walk) {
		w.createAndWait()
		w.orphan(0)
		w.Sleep(soon) // The cache sees that.
		w.scale(0, 3)
		w.Sleep(time.Minute)
		w.deleteDeployment(0)
		w.Expect(5*soon, "the name is free, and the Foo has no Deployment", func() bool { return w.controls(0, 0) })
		w.Recreate(fooRef(0))
		w.Expect(5*soon, "the Foo that was created again has no Deployment of its own", func() bool {
			return w.controls(0, 0) && w.deployment(0).GetDeletionTimestamp() == nil
		})
	}, simulation.OwnObjects),
	lesson("The cache is stale", func(w walk) {
		w.Sleep(soon)
		since := time.Now()
		w.Hold(w.Instance(0), deployments, 10*time.Second)
		w.create(0, 0, 1)
		w.Sleep(soon)
		w.scale(0, 2)
		w.Sleep(9 * time.Second)
		w.AtMost(1, since, "to create a Deployment, because the cache does not have it", createsDeployment)
		w.Sleep(time.Minute)
		w.FailNext(1, "update", deployments, errInjected)
		w.scale(0, 3)
		w.Expect(10*soon, "the Foo is not scaled after an error", func() bool { return w.hasReplicas(0, 3) })
	}),
	lesson("A user looks at the Foo", func(w walk) {
		w.createAndWait()
		w.Expect(5*soon, "the status of the Foo does not say that it is available", func() bool {
			foo := w.Get(fooRef(0))
			return w.availableReplicas() == 1 && number(foo, "status", "observedGeneration") == foo.GetGeneration()
		})
		w.Sleep(time.Minute)
		since := time.Now()
		w.Change(fooRef(0), "annotates", func(foo *object) { foo.SetAnnotations(map[string]string{"note": "a user's"}) })
		w.Sleep(time.Minute)
		w.AtMost(0, since, "although the status is the same", writesFoos)
	}),
	{Name: "Two instances run", Instances: 2, Judged: judged, Run: on(func(w walk) {
		w.createAndWait()
		since := time.Now()
		w.scale(0, 2)
		w.Expect(5*soon, "the Deployment of the Foo is not scaled", func() bool { return w.hasReplicas(0, 2) })
		w.Sleep(5 * soon)
		if w.IsEnded() {
			return
		}
		leader := w.Requested(since, writesDeployments)[0].Client
		isOther := func(r *apiserver.Request) bool { return writesDeployments(r) && r.Client != leader }
		if len(w.Requested(since, isOther)) > 0 {
			w.Violated(simulation.LeaderWrites, "both instances write the Deployment")
			return
		}
		w.Hold(leader, apiserver.AllResources, time.Minute)
		w.scale(0, 5)
		w.Expect(30*soon, "no other instance takes over", func() bool { return w.hasReplicas(0, 5) })
		since = time.Now()
		w.Sleep(time.Minute)
		w.AtMost(0, since, "of "+leader+", although it does not hold the Lease", func(r *apiserver.Request) bool {
			return writesDeployments(r) && r.Client == leader
		})
		w.Delay(5*time.Second, writesDeployments)
		w.scale(0, 4)
		w.Sleep(soon)
		w.HandLeaseOver() // A sync is under way.
		w.Sleep(time.Minute)
	})},
	lesson("The Deployment is renamed, and its replicas are undone", func(w walk) {
		w.createAndWait()
		w.rename(0, 1)
		w.Expect(10*soon, "the superseded Deployment is still there", func() bool { return w.deployment(0) == nil && w.deployment(1) != nil })
		w.Undo(deploymentRef(1), 10*time.Minute)
		since := time.Now()
		w.scale(0, 3)
		w.Sleep(10 * time.Minute)
		w.AtMost(20, since, "that are undone", writesDeployments)
		w.scale(0, 2)
		w.Expect(5*soon, "the Deployment of a changed Foo is not scaled", func() bool { return w.hasReplicas(1, 2) })
		since = time.Now()
		for range 60 {
			w.deleteDeployment(1)
			w.Sleep(soon)
		}
		w.AtMost(20, since, "that are undone by deletions", createsDeployment)
		w.Expect(2*time.Minute, "the Deployment is not created again", func() bool { return w.hasReplicas(1, 2) })
		w.Sleep(5 * time.Minute)
		for range 2 { // The pauses are short again.
			w.deleteDeployment(1)
			w.Expect(5*soon, "the Deployment that was left alone is not created again", func() bool { return w.hasReplicas(1, 2) })
		}
	}, takesOver),
}

// judged are the promises that are judged in all lessons. The stages are unfinished: they keep few.
var judged = []simulation.Promise{
	simulation.Soon, simulation.BoundedWork, simulation.LeaderWrites, simulation.Health, simulation.NoLeftover,
}

// lesson returns a lesson for one instance, in which one more promise may be judged.
func lesson(name string, run func(w walk), also ...simulation.Promise) simulation.Trial {
	return simulation.Trial{Name: name, Judged: slices.Concat(judged, also), Run: on(run)}
}

// createAndWait creates the first Foo with one replica, and waits until its Deployment is available.
func (w walk) createAndWait() {
	w.create(0, 0, 1)
	w.Expect(30*time.Second, "Foo foo-0 has no Deployment that is available", func() bool { return w.isAvailable(0) })
}

// hasReplicas reports whether a Deployment desires a number of replicas, at least one.
func (w walk) hasReplicas(n int, replicas int64) bool {
	return number(w.deployment(n), "spec", "replicas") == replicas
}
