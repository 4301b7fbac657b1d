// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// reports is the promise about the reason in the Ready condition.
const reports simulation.Promise = "a Foo reports what has become of it"

// Trials are walks of Foos in which one certain thing happens, for as long or as often as no random walk has it. One instance runs.
var Trials = []simulation.Trial{
	// The new Deployment is available, and the one that it supersedes about to be pruned.
	trial("a release that the cache has not seen", func(w walk) {
		w.createAndReconcile(0)
		superseded := w.deployment(0)
		w.rename(0, 1)
		w.Expect(soon, "the new Deployment is not available", func() bool { return w.isAvailable(1) })
		w.Sleep(10 * time.Millisecond) // The cache sees that.
		w.Hold(w.Instance(0), deployments, 10*time.Second)
		w.orphan(1)
		w.Sleep(time.Minute)
		if d := w.deployment(0); d == nil || d.GetUID() != superseded.GetUID() {
			w.Violated(takesOver, "Deployment deployment-0 was deleted, and the Foo does not control its successor")
		}
	}),
	trial("a Foo that is being deleted", func(w walk) {
		w.createAndReconcile(1)
		w.Change(fooRef(0), "changes", func(foo *object) { foo.SetFinalizers([]string{"example.com/hold"}) })
		w.deleteFoo(0)
		w.Sleep(time.Minute)
		since := time.Now()
		w.scaleDeployment(0, 4)
		w.Sleep(ResyncPeriod)
		w.AtMost(0, since, "for a Foo that is being deleted", writesDeployments)
	}),
	trial("a name that becomes free", func(w walk) {
		w.create(0, 0, 0)
		w.create(1, 0, 0)
		w.Sleep(time.Hour + ResyncPeriod/2)
		w.deleteFoo(0)
		w.Expect(soon, "the Foo that waits for the name has no Deployment", func() bool { return w.controls(1, 0) })
	}),
	// It serves while the new name of its Foo is taken.
	trial("a superseded Deployment that is orphaned", func(w walk) {
		w.create(0, 0, 0)
		w.create(1, 1, 0)
		w.reconcile(converged)
		w.rename(0, 1)
		w.Sleep(30 * time.Second) // The Foo is not synced again yet because its name is taken.
		w.Expect(soon, "the Deployment that serves is not reported", func() bool { return w.availableReplicas() == 1 })
		w.orphan(0)
		w.Expect(soon, "a Deployment that the Foo does not control is reported", func() bool { return w.availableReplicas() == 0 })
	}),
	// It is reported, and ends later than the pause.
	trial("an hour of undone writes", func(w walk) {
		w.createAndReconcile(0)
		w.Undo(deploymentRef(0), time.Hour)
		since := time.Now()
		w.scale(0, 3)
		w.Sleep(time.Hour)
		w.AtMost(20, since, "that are undone", writesDeployments)
		w.expectReason("DeploymentOverridden", "after an hour")
		w.reconcile(40 * time.Minute)
	}),
	trial("an hour of failing creations", func(w walk) {
		w.createAndReconcile(0)
		w.Sleep(time.Minute)
		w.Reject("the API server fails to create Deployments", time.Hour, errInjected, createsDeployment)
		since := time.Now()
		w.deleteDeployment(0)
		w.Sleep(soon)
		w.expectReason("DeploymentFailed", "without a Deployment")
		w.Sleep(time.Hour - 2*soon)
		w.expectReason("DeploymentFailed", "an hour later")
		w.AtMost(3, since, "although nothing changes", writesFoos)
		w.Expect(soon, "available replicas are reported without a Deployment", func() bool { return w.availableReplicas() == 0 })
		w.reconcile(40 * time.Minute)
	}),
	trial("a rollout that is paused", func(w walk) {
		w.createAndReconcile(2)
		w.update(0, "pauses, and changes the Pod template of,", func(d *object) {
			simulation.SetField(d, "spec.paused", true)
			simulation.SetField(d, "spec.template.metadata.annotations", map[string]any{"example.com/restarted": "now"})
		})
		w.scale(0, 3)
		w.Sleep(time.Minute)
		w.expectReason("DeploymentPaused", "while its rollout is paused")
		w.set(deploymentRef(0), "resumes", "spec.paused", false)
		w.reconcile(soon * 2)
	}),
	trial("a rename under admission that overrides the image", func(w walk) {
		w.Admit("admission rewrites the image of all Deployments", 24*time.Hour, writesDeployments, func(d *object) {
			simulation.SetField(d, imageField, "mirror/nginx")
		})
		w.create(0, 0, 0)
		w.Sleep(time.Minute)
		w.rename(0, 1)
		w.Expect(time.Minute, "the superseded Deployment is still there", func() bool { return w.deployment(0) == nil })
		w.expectReason("DeploymentOverridden", "after a rename")
	}),
	// It cannot take over yet, and whoever scales it to 0 does not change that.
	trial("a new Deployment that others scale to 0", func(w walk) {
		w.createAndReconcile(1)
		w.Sleep(time.Minute)
		w.RejectPods(deploymentRef(1), 30*time.Second)
		w.rename(0, 1)
		w.Sleep(300 * time.Millisecond)
		w.scaleDeployment(1, 0)
		w.Sleep(20 * time.Second)
		if w.deployment(0) == nil {
			w.Violated(takesOver, "the Deployment that serves is gone, and the new one has no replicas")
		}
		w.reconcile(time.Minute)
	}),
	trial("a superseded Deployment that must not be deleted", func(w walk) {
		protected := apierrors.NewForbidden(deployments, deploymentRef(1).Name, errors.New("protected"))
		w.Reject("a policy protects deployment-1 from deletion", time.Hour, protected, func(r *apiserver.Request) bool {
			return r.Verb == "delete" && r.Resource == deployments && r.Name == deploymentRef(1).Name
		})
		w.createAndReconcile(0)
		w.Sleep(time.Minute) // It is the older of two, and pruned last.
		w.rename(0, 1)
		w.Sleep(200 * time.Millisecond) // It is created, and not available yet.
		w.rename(0, 2)
		w.Expect(time.Minute, "another superseded one is still there", func() bool { return w.deployment(0) == nil })
		w.expectReason("DeploymentRejected", "because of the protected one")
		w.reconcile(time.Hour + 40*time.Minute)
	}),
	trial("a rejection that cannot be reported at first", func(w walk) {
		w.createAndReconcile(0)
		w.Reject("a webhook denies all writes of Deployments", time.Hour, errDenied, writesDeployments)
		w.Reject("the API server fails to update Foos", 10*time.Minute, errInjected, writesFoos)
		w.Hide(true)
		w.scale(0, 3)
		w.Sleep(10 * time.Minute)
		w.Expect(20*time.Minute, "the rejection is not reported", func() bool { return w.reason() != "DeploymentAvailable" })
		w.Hide(false)
		w.expectReason("DeploymentRejected", "once it can be reported")
		w.reconcile(2 * time.Hour)
	}),
	trial("an illegal name in a stored Foo", func(w walk) {
		w.createAndReconcile(1)
		w.Store(fooRef(0), func(foo *object) { simulation.SetField(foo, nameField, "Not_A_Name") })
		w.Expect(soon, "the name is not reported as invalid", func() bool { return w.reason() == "DeploymentRejected" })
		w.Sleep(time.Hour)
		if w.deployment(0) == nil {
			w.Violated(takesOver, "Deployment deployment-0 is gone, and has no successor")
		}
		w.rename(0, 1)
		w.reconcile(2 * soon)
	}),
	trial("a Deployment that is released and adopted", func(w walk) {
		w.createAndReconcile(0)
		since, owners := time.Now(), w.deployment(0).GetOwnerReferences()
		for range 150 {
			w.orphan(0)
			w.Sleep(100 * time.Millisecond)
			w.update(0, "makes a Foo the controller of", func(d *object) { d.SetOwnerReferences(owners) })
			w.Sleep(100 * time.Millisecond)
		}
		w.AtMost(62, since, "of the status in half a minute", writesFoos)
	}),
	// Each of the first three comes at another moment of the pause that the last one has started. A minute later, none is under way: one
	// correction, or two in a row, are made at once, and not reported as overridden.
	trial("corrections", func(w walk) {
		w.createAndReconcile(0)
		for n := range 100 {
			w.setImage(0)
			w.Sleep(time.Duration(n/10) * 400 * time.Millisecond)
			w.unlabel(0)
			w.Sleep(time.Duration(n%10) * 400 * time.Millisecond)
			w.setImage(0)
			w.Sleep(time.Minute)
			w.expectReason("DeploymentAvailable", "a minute after the last of three corrections")
			w.setImage(0)
			if n%2 == 1 { // The pause of the first one is over, and not reset yet.
				w.Sleep(1500 * time.Millisecond)
				w.unlabel(0)
			}
			w.reconcile(2 * soon)
			w.expectReason("DeploymentAvailable", "after a correction")
			w.Sleep(time.Minute)
		}
	}),
	// Without a cache of Deployments, the program can only report that, end, and be started again.
	trial("caches that do not sync", func(w walk) {
		w.createAndReconcile(0)
		w.Reject("the API server forbids reading Deployments", 2*cacheSyncTimeout, errForbidden, func(r *apiserver.Request) bool {
			return r.Resource == deployments && !r.IsWrite()
		})
		w.Kill(w.Instance(0))
		w.Sleep(cacheSyncTimeout / 2)
		w.expectRestart(cacheSyncTimeout)
		w.Sleep(cacheSyncTimeout)
		w.deleteDeployment(0)
		w.reconcile(converged)
	}),
	// Each change is one event, whether or not its status can be written at once. Resyncs are none, and a conflict is no failure.
	trial("what events say", func(w walk) {
		w.createAndReconcile(1)
		w.Sleep(2 * ResyncPeriod)
		for n, change := range []func(){func() {}, func() { w.scale(0, 2) }, func() { w.scale(0, 3) }, func() { w.deleteDeployment(0) }} {
			if n == 1 {
				w.Hold(w.Instance(0), deployments, 2*time.Second)
				w.unlabel(0)
			} else if n > 1 {
				w.Reject("no status can be written", soon, errInjected, writesFoos)
			}
			change()
			w.Sleep(time.Minute)
			if synced, failed := w.Events("Synced"), w.Events("DeploymentFailed"); synced != n+1 || failed > 0 {
				w.Violated(reports, "after %d changes there are %d events Synced, and %d DeploymentFailed", n, synced, failed)
			}
		}
	}),
	// Its permissions are removed. The process can only report that, end, and be started again.
	trial("a Lease that must not be used", func(w walk) {
		w.createAndReconcile(0)
		w.Reject("RBAC forbids Leases", 10*cacheSyncTimeout, errForbidden, func(r *apiserver.Request) bool {
			return r.Resource.Resource == "leases"
		})
		w.Sleep(cacheSyncTimeout)
		w.expectRestart(2 * cacheSyncTimeout)
	}),
	// The Lease is released: the next process need not wait until it expires.
	trial("a termination", func(w walk) {
		w.createAndReconcile(1)
		w.Terminate(w.Instance(0))
		w.scale(0, 3)
		w.Expect(5*soon, "the next process does not lead", func() bool { return number(w.deployment(0), "spec", "replicas") == 3 })
	}),
	// There are no more requests an hour at its end than at its beginning.
	trial("a working day", func(w walk) {
		w.create(0, 0, 1)
		w.create(1, 1, 1)
		var writes [8]int
		for hour := range writes {
			since := time.Now()
			for n := range 12 {
				w.scale(n%2, int64(n%5+1))
				w.rename(n%2, hour+n)
				w.Sleep(5 * time.Minute)
				w.deleteDeployment(n)
				w.Recreate(fooRef(hour % 2))
			}
			w.reconcile(converged)
			writes[hour] = len(w.Requested(since, (*apiserver.Request).IsWrite))
		}
		if last, limit := writes[7], slices.Max(writes[:4])*3/2; last > limit {
			w.Violated(simulation.BoundedWork, "%d writes in the last hour of a day, and at most %d in an hour before", last, limit)
		}
	}),
}

const (
	// ResyncPeriod is the resync period of the program under test. What is reconciled only then is reconciled too late.
	ResyncPeriod = 4 * time.Minute
	// cacheSyncTimeout is how long the program waits for its caches.
	cacheSyncTimeout = 2 * time.Minute
	// soon is how long what nothing delays may take, and converged what write pauses delay.
	soon, converged          = time.Second, 2 * time.Minute
	replicasField, nameField = "spec.replicas", "spec.deploymentName"
	imageField               = "spec.template.spec.containers[name=nginx].image"
)

var (
	errInjected  = apierrors.NewInternalError(errors.New("injected"))
	errForbidden = apierrors.NewForbidden(deployments, "", errors.New("no RBAC policy matched"))
	errDenied    = apiserver.StatusError(http.StatusConflict, `admission webhook "policy.example.com" denied the request`)
)

func writesFoos(r *apiserver.Request) bool        { return r.IsWrite() && r.Resource == foos }
func writesDeployments(r *apiserver.Request) bool { return r.IsWrite() && r.Resource == deployments }
func createsDeployment(r *apiserver.Request) bool { return writesDeployments(r) && r.Verb == "create" }
func trial(name string, run func(w walk)) simulation.Trial {
	return simulation.Trial{Name: name, Run: on(run)}
}
func on(run func(w walk)) func(w *simulation.Walk) { return func(w *simulation.Walk) { run(walk{w}) } }

// walk is a walk of Foos and Deployments, which have numbers.
type walk struct{ *simulation.Walk }

func refer(resource schema.GroupResource, prefix string, n int) simulation.Reference {
	return simulation.Refer(resource, metav1.NamespaceDefault, fmt.Sprint(prefix, n))
}

func fooRef(n int) simulation.Reference        { return refer(foos, "foo-", n) }
func deploymentRef(n int) simulation.Reference { return refer(deployments, "deployment-", n) }
func (w walk) deployment(n int) *object        { return w.Get(deploymentRef(n)) }

// create creates a Foo, without replicas if they are 0.
func (w walk) create(n, deployment int, replicas int64) {
	spec := map[string]any{"deploymentName": deploymentRef(deployment).Name}
	if replicas > 0 {
		spec["replicas"] = replicas
	}
	foo := &object{Object: map[string]any{"spec": spec}}
	foo.SetGroupVersionKind(fooKind)
	foo.SetNamespace(metav1.NamespaceDefault)
	foo.SetName(fooRef(n).Name)
	w.Create(foo)
}

// createAndReconcile creates the first Foo, and waits until it is reconciled.
func (w walk) createAndReconcile(replicas int64) {
	w.create(0, 0, replicas)
	w.reconcile(converged)
}

func (w walk) set(ref simulation.Reference, verb, field string, value any) {
	w.Change(ref, verb, func(o *object) { simulation.SetField(o, field, value) })
}

func (w walk) scale(n int, replicas int64) { w.set(fooRef(n), "changes", replicasField, replicas) }
func (w walk) rename(n, name int)          { w.set(fooRef(n), "changes", nameField, deploymentRef(name).Name) }
func (w walk) scaleDeployment(n int, replicas int64) {
	w.set(deploymentRef(n), "scales", replicasField, replicas)
}
func (w walk) setImage(n int)         { w.set(deploymentRef(n), "changes", imageField, "apache") }
func (w walk) deleteFoo(n int)        { w.Delete(fooRef(n), metav1.DeletePropagationBackground) }
func (w walk) deleteDeployment(n int) { w.Delete(deploymentRef(n), metav1.DeletePropagationBackground) }
func (w walk) unlabel(n int) {
	w.set(deploymentRef(n), "removes the labels of", "metadata.labels", nil)
}
func (w walk) orphan(n int) {
	w.set(deploymentRef(n), "removes the owner references of", "metadata.ownerReferences", nil)
}
func (w walk) update(n int, verb string, do func(d *object)) { w.Change(deploymentRef(n), verb, do) }

// reconcile waits until the Foos are reconciled.
func (w walk) reconcile(timeout time.Duration) {
	for start := time.Now(); !w.IsEnded(); w.Sleep(timeout / 100) {
		switch _, differs := JudgeState(all[samplev1alpha1.Foo](w.List(foos)), all[appsv1.Deployment](w.List(deployments))); {
		case differs == "":
			return
		case time.Since(start) >= timeout:
			w.Violated(simulation.Soon, "%s later, %s", timeout, differs)
		}
	}
}

// expectRestart verifies that the process ends, which can only wait.
func (w walk) expectRestart(within time.Duration) {
	waiting := w.Instance(0)
	if w.Sleep(within); w.Instance(0) == waiting {
		w.Violated(simulation.Health, "%s still waits after %s", waiting, within)
	}
}

// isAvailable reports whether a Deployment has one available replica.
func (w walk) isAvailable(n int) bool {
	return number(w.deployment(n), "status", "availableReplicas") == 1
}

// controls reports whether a Foo controls a Deployment.
func (w walk) controls(foo, n int) bool {
	owner, d := w.Get(fooRef(foo)), w.deployment(n)
	return owner != nil && d != nil && metav1.IsControlledBy(d, owner)
}

// availableReplicas returns how many replicas the first Foo reports, and reason the reason of its Ready condition.
func (w walk) availableReplicas() int64 {
	return number(w.Get(fooRef(0)), "status", "availableReplicas")
}
func (w walk) reason() string { return readyOf(w.Get(fooRef(0))).Reason }

// expectReason verifies what the first Foo reports, and that there was an event if that comes from requests.
func (w walk) expectReason(want, when string) {
	if got := w.reason(); got != want {
		w.Violated(reports, "%s it is %q", when, got)
	}
	if !slices.Contains(ofDeployment, want) && w.Events(want) == 0 {
		w.Violated(reports, "%s there is no event %s", when, want)
	}
}
