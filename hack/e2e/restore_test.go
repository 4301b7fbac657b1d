// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// restore is a test of a restore of etcd from a snapshot, and with it of all Foos and Deployments.
type restore struct {
	t         *testing.T
	namespace string
	instances []*instance
	snapshot  string
	// before has the Deployments of the snapshot.
	before map[string]*appsv1.Deployment
	// requests is how many requests each instance had made before the restore.
	requests []int
}

// stalePatches is how many patches a Deployment may get although it needs none: one from a Foo that is stale, because its watch resumes later
// than that of the Deployments, and one that reverts it.
const stalePatches = 2

// staleTime is how long the controller has lost state after a restore.
const staleTime = 2 * time.Second

// uncreated are the Deployments that have to be created after the restore, and unreconciled those that have to be patched.
var uncreated, unreconciled = []string{"pending", "new"}, []string{"scaling", "edited"}

// takeSnapshot takes a snapshot in which some Foos are reconciled, and of others not even the Deployment is written.
func (r *restore) takeSnapshot() {
	r.t.Helper()
	kubectl(r.t, "create", "deployment", "-n", r.namespace, "taken", "--image=other")
	createFoo(r.t, r.namespace, "waiting", "taken", 1)
	names := []string{"scaled", "renamed", "edited", "deleted", "recreated", "scaling", "renaming"}
	for _, name := range names {
		createFoo(r.t, r.namespace, name, name, 1)
	}
	for _, name := range names {
		waitForReplicas(r.t, r.namespace, name, 1)
	}
	waitForStalled(r.t, r.namespace, "waiting", "ErrResourceExists")
	r.setRules(faults.Rule{
		Verbs: faults.Writes, Resources: []string{"deployments"},
		Fault: faults.Reject(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	})
	createFoo(r.t, r.namespace, "pending", "pending", 2)
	patchFoo(r.t, r.namespace, "scaling", `{"spec":{"replicas":3}}`)
	rename(r.t, r.namespace, "renaming", "new")
	deployments, err := kubeClient.AppsV1().Deployments(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	requireNoError(r.t, err)
	r.before = map[string]*appsv1.Deployment{}
	for _, deployment := range deployments.Items {
		r.before[deployment.Name] = &deployment
	}
	r.snapshot, err = local.Snapshot()
	requireNoError(r.t, err)
	r.setRules()
}

// moveOn makes changes after the snapshot, and waits until they are reconciled. All of them will be lost.
func (r *restore) moveOn() {
	r.t.Helper()
	kubectl(r.t, "delete", "-n", r.namespace, "deployment/taken", "foo/deleted", "foo/recreated")
	createFoo(r.t, r.namespace, "recreated", "recreated", 2)
	createFoo(r.t, r.namespace, "lost", "lost", 1)
	patchFoo(r.t, r.namespace, "scaled", `{"spec":{"replicas":4}}`)
	rename(r.t, r.namespace, "renamed", "lost-renamed")
	rename(r.t, r.namespace, "edited", "lost-edited")
	for name, replicas := range map[string]int32{
		"waiting": 1, "lost": 1, "scaled": 4, "renamed": 1, "edited": 1, "recreated": 2, "pending": 2, "scaling": 3, "renaming": 1,
	} {
		waitForReplicasWithin(r.t, 2*convergence, r.namespace, name, replicas)
	}
	waitForDeployments(r.t, r.namespace, "lost", "lost-edited", "lost-renamed", "new", "pending", "recreated", "scaled", "scaling", "taken")
}

// restore restores the snapshot.
func (r *restore) restore(raiseRevision bool) {
	r.t.Helper()
	waitUntilStable(r.t, time.Second, func() []faults.Request { return requestsOf(r.instances) })
	for _, in := range r.instances {
		r.requests = append(r.requests, len(in.proxy.Requests()))
	}
	began := time.Now()
	requireNoError(r.t, local.Restore(r.t.Context(), r.snapshot, raiseRevision))
	r.t.Logf("restored in %s", time.Since(began))
	patchFoo(r.t, r.namespace, "edited", `{"spec":{"replicas":2}}`) // The generation that was lost has another deploymentName.
}

// verify waits until what the restored Foos desire is reached, and checks that it is stable, and how it was reached.
func (r *restore) verify() {
	r.t.Helper()
	waitForControllerManager(r.t)
	for name, replicas := range map[string]int32{
		"scaled": 1, "renamed": 1, "edited": 2, "deleted": 1, "recreated": 1, "scaling": 3, "renaming": 1, "pending": 2,
	} {
		waitForReplicasWithin(r.t, 2*convergence, r.namespace, name, replicas)
	}
	waitForStalled(r.t, r.namespace, "waiting", "ErrResourceExists")
	waitForDeployments(r.t, r.namespace, "deleted", "edited", "new", "pending", "recreated", "renamed", "scaled", "scaling", "taken")
	waitUntilStable(r.t, 3*time.Second, func() []faults.Request { return requestsOf(r.instances) }) // more than two resync periods

	for name, before := range r.before {
		if name == "renaming" {
			continue // It is superseded.
		}
		if after := getDeployment(r.t, r.namespace, name); after.UID != before.UID {
			r.t.Errorf("Deployment %s was deleted and created again", name)
		}
	}
	checkUnchanged(r.t, r.before["taken"])
	created, patches := 0, map[string]int{}
	for i, in := range r.instances {
		requests := in.proxy.Requests()
		if i < len(r.requests) {
			requests = requests[r.requests[i]:]
		}
		for _, request := range requests {
			isUnnecessary := false
			switch {
			case request.Resource != "deployments" || !request.Succeeded():
			case request.Verb == "create":
				created++
				isUnnecessary = created > len(uncreated)
			case request.Verb == "delete":
				isUnnecessary = request.Name != "renaming"
			case request.Verb == "patch" && !slices.Contains(unreconciled, request.Name):
				patches[request.Name]++
				isUnnecessary = patches[request.Name] > stalePatches
			}
			if isUnnecessary {
				r.t.Errorf("unnecessary %s of a Deployment %s", request.Verb, request.Name)
			}
		}
	}
}

func (r *restore) setRules(rules ...faults.Rule) {
	for _, in := range r.instances {
		in.proxy.SetRules(rules...)
	}
}

// The durations of the Lease are longer than a restore takes.
const (
	restoredLeaseDuration = 10 * time.Second
	restoredRenewDeadline = 9 * time.Second
)

// start starts an instance.
func (r *restore) start() *instance {
	r.t.Helper()
	in := startCandidate(r.t, fmt.Sprintf("%s-%s-%d", outageUser, r.namespace, len(r.instances)), r.namespace, 0,
		"-leader-elect-lease-duration", restoredLeaseDuration.String(), "-leader-elect-renew-deadline", restoredRenewDeadline.String())
	r.instances = append(r.instances, in)
	return in
}

// TestRestoredEtcd restores etcd with a raised revision while a leader and a standby run. The leader has the lost state of a resource for a
// while, or another one leads since the snapshot and the leader was frozen. Not parallel: it restores the shared cluster.
func TestRestoredEtcd(t *testing.T) {
	for _, test := range []string{"Foos stale", "Deployments stale", "Lease taken over"} {
		t.Run(test, func(t *testing.T) {
			r := &restore{t: t, namespace: newNamespace(t)}
			leader, standbys := waitForLeader(t, convergence, []*instance{r.start(), r.start()})
			r.takeSnapshot()
			takenOver := test == "Lease taken over"
			if takenOver {
				// The Lease is renewed in a later second: client-go's leader election does not see smaller differences, and would take a Lease of
				// the same second for the one that it knew before it took over.
				wait(t, time.After(2*time.Second))
				leader.signal(syscall.SIGSTOP)
				waitForLeader(t, convergence, standbys)
			}
			r.moveOn()
			released := make(chan struct{})
			if !takenOver {
				resource, hold := strings.ToLower(strings.Fields(test)[0]), faults.During(func() { wait(t, released) })
				leader.proxy.SetRules(faults.Rule{Verbs: []string{"watch"}, Resources: []string{resource}, Fault: hold})
			}
			r.restore(true)
			if takenOver {
				leader.signal(syscall.SIGCONT)
				r.start()
				standbys[0].waitForExit(1) // The frozen one may go on, because the Lease is its own again.
			} else {
				wait(t, time.After(staleTime))
				close(released)
			}
			r.verify()
		})
	}
}

// Without a raised revision, watches deliver nothing. Until the controller is restarted it must not write from what it has cached. Not
// parallel: it restores the shared cluster.
func TestRestoredEtcdWithoutRaisedRevision(t *testing.T) {
	r := &restore{t: t, namespace: newNamespace(t)}
	controller := r.start()
	controller.waitForLog("Started workers")
	r.takeSnapshot()
	r.moveOn()
	r.restore(false)
	waitForControllerManager(t)
	wait(t, time.After(staleTime))
	controller.restart()
	r.verify()
}
