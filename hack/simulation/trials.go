// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// trials are walks in which one certain thing happens, for as long or as often as no random walk has it. One instance runs.
var trials = []struct {
	name  string
	run   func(w *walk)
	walks int // It takes longer, and is left out if there are fewer walks.
}{
	{"a Foo among many", fooAmongMany, 0},
	{"a deletion that no watch sees", missedDeletion, 0},
	{"a change of mind that the cache has not seen", changeOfMind, 0},
	{"a release that the cache has not seen", unseenRelease, 0},
	{"a rename without replicas", renameWithoutReplicas, 0},
	{"a Foo that is created again", recreated, 0},
	{"a Foo that is being deleted", deletedFoo, 0},
	{"an error", oneError, 0},
	{"a conflict that no event follows", oneConflict, 0},
	{"a minute of errors", minuteOfErrors, 0},
	{"an error after a success", errorAfterSuccess, 0},
	{"a name that becomes free", freedName, 0},
	{"a superseded Deployment that is orphaned", orphanedSuperseded, 0},
	{"an hour of rejected writes", hourOfRejectedWrites, 0},
	{"an hour of undone writes", hourOfUndoneWrites, 0},
	{"corrections a minute apart", correctionsAMinuteApart, 0},
	{"a termination during a sync", terminationDuringSync, 0},
	{"a day", aDay, 200},
}

const soon = time.Second

var errInjected = apierrors.NewInternalError(errors.New("injected"))

// fooAmongMany changes a Foo while those of an initial list are synced.
func fooAmongMany(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.current(0).stop(true)
	const many = 200
	for n := range many {
		w.server.write(user, "create", foos, newFoo(fmt.Sprintf("many-%d", n), fmt.Sprintf("many-%d", n), 1), "")
	}
	w.tell(user, "creates %d Foos while no instance runs", many)
	w.requestFault = func(_ string, r *request) fault { return fault{before: 200 * time.Millisecond} }
	since := time.Now()
	w.expect(convergenceTimeout, "the next instance syncs no Foo", func() bool {
		return w.count(since, func(r request) bool { return r.verb == "create" && r.resource == deployments }) > 0
	})
	w.act("scale", 0, 2)
	w.expect(5*soon, "the change of a user waits behind the initial list", func() bool { return w.availableReplicas(0) == 3 })
}

// recreated deletes a Foo and creates it again, before the garbage collector deletes its Deployment.
func recreated(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.act("recreate", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
}

// deletedFoo scales the Deployment of a Foo that is deleted and held by a finalizer.
func deletedFoo(w *walk) {
	w.act("create", 0, nameCount)
	w.waitUntilReconciled(convergenceTimeout)
	w.act("finalizer", 0, 0)
	w.act("delete", 0, 0)
	w.sleep(time.Minute)
	since := time.Now()
	w.act("scaleDeployment", 0, 4)
	w.sleep(ResyncPeriod)
	w.atMost(0, since, "for a Foo that is being deleted", func(r request) bool { return r.resource == deployments && r.isWrite() })
}

// oneError makes the first creation fail.
func oneError(w *walk) {
	w.fail(1, "create", deployments, errInjected)
	w.act("create", 0, 0)
	w.waitUntilReconciled(soon)
}

// oneConflict makes a patch fail with a conflict, although nothing has changed.
func oneConflict(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.sleep(time.Minute)
	w.fail(1, "patch", deployments, apierrors.NewConflict(appsv1.Resource(deployments), deploymentName(0), errors.New("injected")))
	w.act("unlabel", 0, 0)
	w.waitUntilReconciled(soon)
}

// changeOfMind changes the deploymentName back when the Deployment of that name is about to be pruned.
func changeOfMind(w *walk) {
	w.beforePrune(foos, func() { w.act("rename", 0, 0) })
}

// unseenRelease orphans the new Deployment when the superseded one is about to be pruned.
func unseenRelease(w *walk) {
	w.beforePrune(deployments, func() { w.act("orphan", 1, 0) })
}

// renameWithoutReplicas renames a Deployment that was scaled, since the Foo does not set its replicas.
func renameWithoutReplicas(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.act("scaleDeployment", 0, 4)
	w.sleep(soon) // The cache sees that.
	w.act("rename", 0, 1)
	w.expect(2*soon, "the new Deployment has other replicas than the superseded one", func() bool { return w.availableReplicas(0) == 4 })
}

// beforePrune renames the Deployment of a Foo and, when the new one is available, does what the cache does not see in time.
func (w *walk) beforePrune(unseen string, do func()) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.act("rename", 0, 1)
	w.expect(soon, "the new Deployment is not available", func() bool {
		d := w.get(deployments, deploymentName(1))
		return d != nil && toDeployment(d).Status.AvailableReplicas == 1
	})
	w.sleep(10 * time.Millisecond) // The cache sees that.
	w.current(0).transport.hold(unseen, 10*time.Second)
	w.tell(user, "delays the watch of %s by 10s", unseen)
	do()
	w.sleep(time.Minute)
}

// missedDeletion deletes the Deployment while its watch is cut.
func missedDeletion(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.sleep(time.Minute)
	w.current(0).transport.cut(deployments, 5*time.Second)
	w.tell(user, "cuts the watch of deployments for 5s, then it relists")
	w.act("deleteDeployment", 0, 0)
	w.server.expireWatches()
	w.sleep(5 * time.Second)
	w.waitUntilReconciled(time.Minute)
}

// minuteOfErrors makes all creations fail for a minute.
func minuteOfErrors(w *walk) {
	w.fail(1000, "create", deployments, errInjected)
	since := time.Now()
	w.act("create", 0, 0)
	w.sleep(time.Minute)
	w.atMost(20, since, "after errors", func(r request) bool { return r.verb == "create" && r.resource == deployments })
}

// errorAfterSuccess makes a number of patches fail, and then, after a success, one.
func errorAfterSuccess(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.fail(12, "patch", deployments, errInjected)
	w.act("scale", 0, 2)
	w.waitUntilReconciled(convergenceTimeout)
	w.sleep(time.Minute)
	w.fail(1, "patch", deployments, errInjected)
	w.act("unlabel", 0, 0) // No rollout follows, whose events would sync the Foo earlier.
	w.waitUntilReconciled(soon)
}

// freedName deletes the Foo whose Deployment has the name for which another Foo has waited for an hour.
func freedName(w *walk) {
	w.act("create", 0, 0)
	w.act("create", 1, 0)
	w.sleep(time.Hour + ResyncPeriod/2)
	w.act("delete", 0, 0)
	w.expect(soon, "the Foo that waits for the name has no Deployment", func() bool {
		d := w.get(deployments, deploymentName(0))
		return d != nil && metav1.IsControlledBy(d, w.get(foos, fooName(1)))
	})
}

// orphanedSuperseded orphans the Deployment that serves while the new name of its Foo is taken.
func orphanedSuperseded(w *walk) {
	w.act("create", 0, 0)
	w.act("create", 1, 1)
	w.waitUntilReconciled(convergenceTimeout)
	w.act("rename", 0, 1)
	w.sleep(time.Minute)
	w.expect(soon, "the Deployment that serves is not reported", func() bool { return w.availableReplicas(0) == 1 })
	w.act("orphan", 0, 0)
	w.expect(soon, "a Deployment that the Foo does not control is reported", func() bool { return w.availableReplicas(0) == 0 })
}

// hourOfRejectedWrites changes a Deployment, whose writes are rejected, every 5 s.
func hourOfRejectedWrites(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.tell(user, "%s", w.addRule("a quota rejects all writes of Deployments", time.Hour, rule{
		matches: func(r *request) bool { return isInstance(r.client) && r.isWrite() && r.resource == deployments },
		reject: func(r *request) error {
			return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("exceeded quota"))
		},
	}))
	since := time.Now()
	w.act("scale", 0, 2)
	for n := range 720 {
		w.act("annotate", 0, n)
		w.sleep(5 * time.Second)
		w.atMost(20, since, "that are rejected", func(r request) bool { return r.resource == deployments && r.isWrite() })
	}
	w.atMost(20, since, "although nothing changes", func(r request) bool { return r.resource == foos && r.isWrite() })
}

// hourOfUndoneWrites undoes each write for an hour. It is reported, and ends later than the backoff.
func hourOfUndoneWrites(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.undone[deploymentName(0)] = time.Now().Add(time.Hour)
	since := time.Now()
	w.act("scale", 0, 2)
	for range 60 {
		w.sleep(time.Minute)
		w.atMost(20, since, "that are undone", func(r request) bool { return r.resource == deployments && r.isWrite() })
	}
	if reason := w.reason(0); reason != "DeploymentOverridden" {
		w.violated("what is reported", "after an hour the reason is %s", reason)
	}
	w.waitUntilReconciled(40 * time.Minute)
}

// correctionsAMinuteApart changes the replicas once a minute. None of it is reported as overridden.
func correctionsAMinuteApart(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	for range 30 {
		w.act("scaleDeployment", 0, 6)
		w.waitUntilReconciled(2 * soon)
		if reason := w.reason(0); reason != "DeploymentAvailable" {
			w.violated("what is reported", "after a correction the reason is %s", reason)
		}
		w.sleep(time.Minute)
	}
}

// terminationDuringSync terminates the instance while a request of it is under way.
func terminationDuringSync(w *walk) {
	w.act("create", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
	w.requestFault = func(_ string, r *request) fault {
		if r.verb == "patch" && r.resource == deployments {
			return fault{before: 5 * time.Second}
		}
		return fault{}
	}
	w.act("scale", 0, 2)
	w.sleep(time.Second)
	w.act("terminate", 0, 0)
	w.waitUntilReconciled(convergenceTimeout)
}

// aDay changes Foos all day. Then there are no more requests an hour than at its beginning.
func aDay(w *walk) {
	var writes [24]int
	for hour := range writes {
		since := time.Now()
		for minute := range 12 {
			w.act([]string{"create", "scale", "rename", "scaleDeployment", "recreate", "deleteDeployment"}[minute%6], minute/3, hour*12+minute)
			w.sleep(5 * time.Minute)
		}
		w.waitUntilReconciled(convergenceTimeout)
		writes[hour] = w.count(since, func(r request) bool { return r.isWrite() && r.resource != leases })
	}
	if last, limit := writes[23], slices.Max(writes[:12])*3/2; last > limit {
		w.violated("how often", "%d writes in the last hour of a day, and at most %d in an hour before", last, limit)
	}
}

// act takes a step of a kind.
func (w *walk) act(name string, target, argument int) {
	i := slices.IndexFunc(kinds, func(kind kind) bool { return kind.name == name })
	w.take(step{kind: &kinds[i], target: target, argument: argument})
}

// fail makes the next requests of a kind fail.
func (w *walk) fail(n int, verb, resource string, err error) {
	w.tell("API server", "fails the next %d requests to %s %s", n, verb, resource)
	w.addRule("", 24*time.Hour, rule{
		matches: func(r *request) bool {
			if !isInstance(r.client) || r.verb != verb || r.resource != resource || n == 0 {
				return false
			}
			n--
			return true
		},
		reject: func(*request) error { return err },
	})
}

// expect waits until something is so.
func (w *walk) expect(timeout time.Duration, otherwise string, is func() bool) {
	for start := time.Now(); !is() && !w.hasFailed(); w.sleep(10 * time.Millisecond) {
		if time.Since(start) > timeout {
			w.violated("how soon", "after %s: %s", timeout, otherwise)
		}
	}
}

// atMost bounds the number of requests of a kind.
func (w *walk) atMost(limit int, since time.Time, what string, counts func(r request) bool) {
	if n := w.count(since, counts); n > limit {
		w.violated("how often", "%d requests in %s %s", n, time.Since(since), what)
	}
}

func (w *walk) foo(n int) *samplev1alpha1.Foo {
	foo := &samplev1alpha1.Foo{}
	if found := w.get(foos, fooName(n)); found != nil {
		convert(found, foo)
	}
	return foo
}

func (w *walk) availableReplicas(n int) int32 { return w.foo(n).Status.AvailableReplicas }

func (w *walk) reason(n int) string {
	ready := meta.FindStatusCondition(w.foo(n).Status.Conditions, samplev1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	return ready.Reason
}
