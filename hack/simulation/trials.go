// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	walks int // It takes longer, and is left out if there are fewer walks.
	run   func(w *walk)
}{
	{"a Foo among many", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.current(0).stop(true)
		const many = 200
		for n := range many {
			foo := newFoo(fmt.Sprintf("many-%d", n), fmt.Sprintf("many-%d", n), 1)
			_ = w.server.write(user, "create", foos, foo, foo) // No such Foo exists.
		}
		w.tell(user, "creates %d Foos while no instance runs", many)
		w.setRequestFault(func(string, *Request) Fault { return Fault{Delay: 200 * time.Millisecond} })
		since := time.Now()
		w.expect(convergenceTimeout, "the next instance syncs no Foo", func() bool { return len(w.requested(since, createsDeployment)) > 0 })
		w.act("scale", 0, 2)
		w.expect(5*soon, "the change of a user waits behind the initial list", func() bool { return w.availableReplicas(0) == 3 })
	}},
	{"a deletion that no watch sees", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.sleep(time.Minute)
		w.current(0).CutWatch(deployments, 5*time.Second)
		w.tell(user, "cuts the watch of deployments for 5s, then it relists")
		w.act("deleteDeployment", 0, 0)
		w.server.expireWatches()
		w.sleep(5 * time.Second)
		w.waitUntilReconciled(time.Minute)
	}},
	// The deploymentName is changed back when the Deployment of that name is about to be pruned.
	{"a change of mind that the cache has not seen", 0, func(w *walk) {
		w.beforePrune(foos, func() { w.act("rename", 0, 0) })
	}},
	{"a release that the cache has not seen", 0, func(w *walk) {
		w.beforePrune(deployments, func() { w.act("orphan", 1, 0) })
	}},
	{"a rename without replicas", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.act("scaleDeployment", 0, 4)
		w.sleep(soon) // The cache sees that.
		w.act("rename", 0, 1)
		w.expect(2*soon, "the new Deployment has other replicas than the superseded one", func() bool {
			return w.get(deployments, deploymentName(0)) == nil && number(w.get(deployments, deploymentName(1)), "spec", "replicas") == 4
		})
	}},
	{"a Foo that is created again", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.reconcile("recreate", 0, 0)
	}},
	// A finalizer holds it.
	{"a Foo that is being deleted", 0, func(w *walk) {
		w.reconcile("create", 0, nameCount)
		w.act("finalizer", 0, 0)
		w.act("delete", 0, 0)
		w.sleep(time.Minute)
		since := time.Now()
		w.act("scaleDeployment", 0, 4)
		w.sleep(ResyncPeriod)
		w.atMost(0, since, "for a Foo that is being deleted", writesDeployments)
	}},
	{"a conflict that no event follows", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.sleep(time.Minute)
		w.fail(1, "patch", deployments, apierrors.NewConflict(appsv1.Resource(deployments), deploymentName(0), errors.New("injected")))
		w.act("unlabel", 0, 0)
		w.waitUntilReconciled(soon)
	}},
	{"a minute of errors", 0, func(w *walk) {
		w.fail(1000, "create", deployments, errInjected)
		since := time.Now()
		w.act("create", 0, 0)
		w.sleep(time.Minute)
		w.atMost(20, since, "after errors", createsDeployment)
	}},
	// The rollout begins just after the write pause of the creation, when it is not known yet whether others undo that.
	{"a status that cannot be written", 0, func(w *walk) {
		w.tell(user, "%s", w.addRule("a quota rejects new Pods", soon, rule{
			matches: func(r *Request) bool { return r.Resource == "pods" },
			reject:  exceedsQuota,
		}))
		w.act("create", 0, 0)
		w.sleep(soon)
		w.tell(user, "%s", w.addRule("the API server fails to update Foos", 5*time.Second, rule{
			matches: func(r *Request) bool { return isInstance(r.client) && r.Resource == foos && r.IsWrite() },
			reject:  func(*Request) error { return errInjected },
		}))
		w.waitUntilReconciled(time.Minute)
	}},
	// It is lost for so short a time that the process goes on, while others change the Deployment.
	{"a Lease that is lost and regained", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.act("handLeaseOver", 0, 0)
		w.sleep(2 * time.Second)
		for n := range 20 {
			w.act("scaleDeployment", 0, n)
			w.sleep(200 * time.Millisecond)
		}
		w.act("clearLease", 0, 0)
		w.waitUntilReconciled(5 * time.Second)
	}},
	{"an error after a success", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.fail(12, "patch", deployments, errInjected)
		w.reconcile("scale", 0, 2)
		w.sleep(time.Minute)
		w.fail(1, "patch", deployments, errInjected)
		w.act("unlabel", 0, 0) // No rollout follows, whose events would sync the Foo earlier.
		w.waitUntilReconciled(soon)
	}},
	// Another Foo has waited for the name for an hour.
	{"a name that becomes free", 0, func(w *walk) {
		w.act("create", 0, 0)
		w.act("create", 1, 0)
		w.sleep(time.Hour + ResyncPeriod/2)
		w.act("delete", 0, 0)
		w.expect(soon, "the Foo that waits for the name has no Deployment", func() bool {
			d := w.get(deployments, deploymentName(0))
			return d != nil && metav1.IsControlledBy(d, w.get(foos, fooName(1)))
		})
	}},
	// It serves while the new name of its Foo is taken.
	{"a superseded Deployment that is orphaned", 0, func(w *walk) {
		w.act("create", 0, 0)
		w.reconcile("create", 1, 1)
		w.act("rename", 0, 1)
		w.sleep(30 * time.Second) // The Foo is not synced again yet because its name is taken.
		w.expect(soon, "the Deployment that serves is not reported", func() bool { return w.availableReplicas(0) == 1 })
		w.act("orphan", 0, 0)
		w.expect(soon, "a Deployment that the Foo does not control is reported", func() bool { return w.availableReplicas(0) == 0 })
	}},
	// The Deployment changes every 5 s.
	{"an hour of rejected writes", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.tell(user, "%s", w.addRule("a quota rejects all writes of Deployments", time.Hour, rule{
			matches: func(r *Request) bool { return isInstance(r.client) && writesDeployments(r) },
			reject:  exceedsQuota,
		}))
		since := time.Now()
		w.act("scale", 0, 2)
		for n := range 720 {
			w.act("annotate", 0, n)
			w.sleep(5 * time.Second)
			w.atMost(20, since, "that are rejected", writesDeployments)
		}
		w.atMost(20, since, "although nothing changes", func(r *Request) bool { return r.Resource == foos && r.IsWrite() })
	}},
	// It is reported, and ends later than the pause.
	{"an hour of undone writes", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.undoChanges(deploymentName(0), time.Hour)
		since := time.Now()
		w.act("scale", 0, 2)
		for range 60 {
			w.sleep(time.Minute)
			w.atMost(20, since, "that are undone", writesDeployments)
		}
		w.expectReason("DeploymentOverridden", "after an hour")
		w.waitUntilReconciled(40 * time.Minute)
	}},
	{"an hour of failing creations", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.sleep(time.Minute)
		w.reject("the API server fails to create Deployments", time.Hour, createsDeployment, errInjected)
		since := time.Now()
		w.act("deleteDeployment", 0, 0)
		w.sleep(soon)
		w.expectReason("DeploymentFailed", "without a Deployment")
		w.sleep(time.Hour - 2*soon)
		w.expectReason("DeploymentFailed", "an hour later")
		w.atMost(3, since, "although nothing changes", func(r *Request) bool { return r.Resource == foos && r.IsWrite() })
		if w.availableReplicas(0) > 0 {
			w.violated("what is reported", "available replicas without a Deployment")
		}
		w.waitUntilReconciled(40 * time.Minute)
	}},
	{"a rename under admission that overrides the image", 0, func(w *walk) {
		w.tell(user, "%s", w.addRule("admission rewrites the image of all Deployments", 24*time.Hour, rule{
			matches: func(r *Request) bool { return isInstance(r.client) && writesDeployments(r) },
			admit:   func(o *object) { setImage(o, "mirror/nginx") },
		}))
		w.act("create", 0, 0)
		w.sleep(time.Minute)
		w.act("rename", 0, 1)
		w.expect(time.Minute, "the superseded Deployment is still there", func() bool { return w.get(deployments, deploymentName(0)) == nil })
		w.expectReason("DeploymentOverridden", "after a rename")
	}},
	// It cannot take over yet, and whoever scales it to 0 does not change that.
	{"a new Deployment that others scale to 0", 0, func(w *walk) {
		w.reconcile("create", 0, nameCount) // The Foo desires one replica.
		w.sleep(time.Minute)
		w.tell(user, "%s", w.addRule("a quota rejects new Pods", 30*time.Second, rule{
			matches: func(r *Request) bool { return r.Resource == "pods" },
			reject:  exceedsQuota,
		}))
		w.act("rename", 0, 1)
		w.sleep(300 * time.Millisecond)
		w.act("scaleDeployment", 1, 0)
		w.sleep(20 * time.Second)
		if w.get(deployments, deploymentName(0)) == nil {
			w.violated("what a deletion finds", "the Deployment that serves is gone, and the new one has no replicas")
		}
		w.waitUntilReconciled(time.Minute)
	}},
	{"a superseded Deployment that must not be deleted", 0, func(w *walk) {
		w.reject("a policy protects deployment-1 from deletion", time.Hour, func(r *Request) bool {
			return r.Verb == "delete" && r.Resource == deployments && r.Name == deploymentName(1)
		}, apierrors.NewForbidden(appsv1.Resource(deployments), deploymentName(1), errors.New("protected")))
		w.reconcile("create", 0, 0)
		w.sleep(time.Minute) // It is the older of two, and pruned last.
		w.act("rename", 0, 1)
		w.sleep(200 * time.Millisecond) // It is created, and not available yet.
		w.act("rename", 0, 2)
		w.expect(time.Minute, "another superseded one is still there", func() bool { return w.get(deployments, deploymentName(0)) == nil })
		w.expectReason("DeploymentRejected", "because of the protected one")
		w.waitUntilReconciled(time.Hour + 40*time.Minute)
	}},
	{"a rejection that cannot be reported at first", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.reject("a quota rejects all writes of Deployments", time.Hour, writesDeployments, exceedsQuota(&Request{Resource: deployments}))
		w.reject("the API server fails to update Foos", 10*time.Minute, func(r *Request) bool { return r.Resource == foos && r.IsWrite() }, errInjected)
		w.act("scale", 0, 2)
		w.sleep(10 * time.Minute)
		w.expect(20*time.Minute, "the rejection is not reported", func() bool { return w.reason(0) != "DeploymentAvailable" })
		w.expectReason("DeploymentRejected", "once it can be reported")
		w.waitUntilReconciled(2 * time.Hour)
	}},
	// Its selector is immutable, so that the API server rejects the labels of the Foo.
	{"a Deployment that cannot be patched", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.reject("the API server rejects patches of Deployments", time.Hour, func(r *Request) bool { return r.Verb == "patch" && r.Resource == deployments },
			exceedsQuota(&Request{Resource: deployments}))
		w.act("scale", 0, 2)
		w.sleep(10 * time.Minute)
		w.act("deleteDeployment", 0, 0)
		w.waitUntilReconciled(2 * soon)
	}},
	{"a Deployment that is released and adopted", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		since := time.Now()
		for n := range 300 {
			w.act([]string{"orphan", "adopt"}[n%2], 0, 0)
			w.sleep(100 * time.Millisecond)
		}
		w.atMost(62, since, "of the status in half a minute", func(r *Request) bool { return r.Resource == foos && r.IsWrite() })
	}},
	// Each of the first three comes at another moment of the pause that the last one has started. A minute later, none is under way: one
	// correction, or two in a row, are made at once, and not reported as overridden.
	{"corrections", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		for n := range 100 {
			w.act("setImage", 0, 0)
			w.sleep(time.Duration(n/10) * 400 * time.Millisecond)
			w.act("unlabel", 0, 0)
			w.sleep(time.Duration(n%10) * 400 * time.Millisecond)
			w.act("setImage", 0, 0)
			w.sleep(time.Minute)
			w.expectReason("DeploymentAvailable", "a minute after the last of three corrections")
			w.act("setImage", 0, 0)
			if n%2 == 1 { // The pause of the first one is over, and not reset yet.
				w.sleep(1500 * time.Millisecond)
				w.act("unlabel", 0, 0)
			}
			w.waitUntilReconciled(2 * soon)
			w.expectReason("DeploymentAvailable", "after a correction")
			w.sleep(time.Minute)
		}
	}},
	{"a termination during a sync", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.setRequestFault(func(_ string, r *Request) Fault {
			if r.Verb == "patch" && r.Resource == deployments {
				return Fault{Delay: 5 * time.Second}
			}
			return Fault{}
		})
		w.act("scale", 0, 2)
		w.sleep(time.Second)
		w.reconcile("terminate", 0, 0)
	}},
	// A Reflector of client-go sleeps in its backoff, whatever happens. The process does not wait for it.
	{"a termination while lists are rejected", 0, func(w *walk) {
		w.reconcile("create", 0, 0)
		w.addRule("", time.Hour, rule{
			matches: func(r *Request) bool { return isInstance(r.client) && r.Query.Get("sendInitialEvents") == "true" },
			reject:  func(*Request) error { return apierrors.NewTooManyRequests("injected", 0) },
		})
		w.server.expireWatches()
		i := w.current(0)
		i.CutWatch(all, 0)
		w.sleep(5 * time.Minute)
		w.act("terminate", 0, 0)
		w.expect(soon+restartDelay, "the process has not ended", func() bool { return w.current(0) != i })
	}},
	// There are no more requests an hour at its end than at its beginning.
	{"a day", 200, func(w *walk) {
		var writes [24]int
		for hour := range writes {
			since := time.Now()
			for minute := range 12 {
				w.act([]string{"create", "scale", "rename", "scaleDeployment", "recreate", "deleteDeployment"}[minute%6], minute/3, hour*12+minute)
				w.sleep(5 * time.Minute)
			}
			w.waitUntilReconciled(convergenceTimeout)
			writes[hour] = len(w.requested(since, func(r *Request) bool { return r.IsWrite() && r.Resource != leases }))
		}
		if last, limit := writes[23], slices.Max(writes[:12])*3/2; last > limit {
			w.violated("how often", "%d writes in the last hour of a day, and at most %d in an hour before", last, limit)
		}
	}},
}

const soon = time.Second

var errInjected = apierrors.NewInternalError(errors.New("injected"))

func createsDeployment(r *Request) bool { return r.Verb == "create" && r.Resource == deployments }

// act takes a step of a kind.
func (w *walk) act(name string, target, argument int) {
	i := slices.IndexFunc(kinds, func(kind kind) bool { return kind.name == name })
	w.take(step{kind: &kinds[i], target: target, argument: argument})
}

// reconcile takes a step of a kind, and waits until the Foos are reconciled.
func (w *walk) reconcile(name string, target, argument int) {
	w.act(name, target, argument)
	w.waitUntilReconciled(convergenceTimeout)
}

// beforePrune renames the Deployment of a Foo and, when the new one is available, does what the cache does not see in time.
func (w *walk) beforePrune(unseen string, do func()) {
	w.reconcile("create", 0, 0)
	w.act("rename", 0, 1)
	w.expect(soon, "the new Deployment is not available", func() bool { return w.isAvailable(1) })
	w.sleep(10 * time.Millisecond) // The cache sees that.
	w.current(0).HoldWatch(unseen, 10*time.Second)
	w.tell(user, "delays the watch of %s by 10s", unseen)
	do()
	w.sleep(time.Minute)
}

// setRequestFault sets which fault a request has.
func (w *walk) setRequestFault(fault func(id string, r *Request) Fault) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.requestFault = fault
}

// fail makes the next requests of a kind fail.
func (w *walk) fail(n int, verb, resource string, err error) {
	w.tell("API server", "fails %d of the next requests to %s %s", n, verb, resource)
	var first sync.Once
	w.addRule("", 24*time.Hour, rule{
		matches: func(r *Request) bool {
			if !isInstance(r.client) || r.Verb != verb || r.Resource != resource || n == 0 {
				return false
			}
			n--
			return true
		},
		reject: func(r *Request) error {
			first.Do(func() { w.tell(r.client, "%s: %v", r, err) })
			return err
		},
	})
}

// reject makes all requests of the instances fail that match, for a time.
func (w *walk) reject(what string, duration time.Duration, matches func(r *Request) bool, err error) {
	w.tell(user, "%s", w.addRule(what, duration, rule{
		matches: func(r *Request) bool { return isInstance(r.client) && matches(r) },
		reject:  func(*Request) error { return err },
	}))
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
func (w *walk) atMost(limit int, since time.Time, what string, counts func(r *Request) bool) {
	if n := len(w.requested(since, counts)); n > limit {
		w.violated("how often", "%d requests in %s %s", n, time.Since(since), what)
	}
}

func (w *walk) availableReplicas(n int) int64 {
	return number(w.get(foos, fooName(n)), "status", "availableReplicas")
}

// isAvailable reports whether a Deployment has one available replica.
func (w *walk) isAvailable(n int) bool {
	return number(w.get(deployments, deploymentName(n)), "status", "availableReplicas") == 1
}

// reason returns the reason of the Ready condition of a Foo.
func (w *walk) reason(n int) string {
	foo := as[samplev1alpha1.Foo](w.get(foos, fooName(n)))
	return cmp.Or(meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady), &metav1.Condition{}).Reason
}

// expectReason verifies what the first Foo reports.
func (w *walk) expectReason(want, when string) {
	if got := w.reason(0); got != want {
		w.violated("what is reported", "%s it is %q", when, got)
	}
}
