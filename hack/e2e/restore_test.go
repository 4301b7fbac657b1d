// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	proxies   []*faults.Proxy
	snapshot  string
	// before has the Deployments of the snapshot.
	before map[string]*appsv1.Deployment
	// requests is how many requests each proxy had seen before the restore.
	requests []int
	history  *history
}

// stalePatches is how many patches a Deployment may get although it needs none: one from a Foo that is stale, because its watch resumes later
// than that of the Deployments, and one that reverts it.
const stalePatches = 2

// unreconciled are the Deployments that have to be written after the restore.
var unreconciled = []string{"pending", "scaling", "new", "edited"}

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
	waitForGarbageCollection(r.t, 2*convergence, r.namespace, "deleted")
	waitForDeployments(r.t, r.namespace, "lost", "lost-edited", "lost-renamed", "new", "pending", "recreated", "scaled", "scaling", "taken")
}

// restore restores the snapshot. Writes other than to the Lease are held until the history of the restored objects is recorded.
func (r *restore) restore(raiseRevision bool) {
	r.t.Helper()
	waitUntilStable(r.t, time.Second, r.allRequests)
	for _, proxy := range r.proxies {
		r.requests = append(r.requests, len(proxy.Requests()))
	}
	restored := make(chan struct{})
	r.setRules(faults.Rule{Verbs: faults.Writes, Resources: []string{"deployments", "foos/status", "events"}, Fault: faults.During(func() {
		select {
		case <-restored:
		case <-r.t.Context().Done():
		}
	})})
	began := time.Now()
	requireNoError(r.t, local.Restore(r.t.Context(), r.snapshot, raiseRevision))
	r.t.Logf("restored in %s", time.Since(began))
	r.history = watchHistory(r.t, r.namespace)
	close(restored)
	r.setRules()
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
	waitUntilStable(r.t, 3*time.Second, r.allRequests) // more than two resync periods

	for name, before := range r.before {
		if name == "renaming" {
			continue // It is superseded.
		}
		if after := getDeployment(r.t, r.namespace, name); after.UID != before.UID {
			r.t.Errorf("Deployment %s was deleted and created again", name)
		}
	}
	checkUnchanged(r.t, r.before["taken"])
	patches := map[string]int{}
	for i, proxy := range r.proxies {
		requests := proxy.Requests()[r.requests[i]:]
		r.history.checkWrites(requests)
		for _, request := range requests {
			deployment, ok := request.Object.(*appsv1.Deployment)
			if !ok || !slices.Contains(faults.Writes, request.Verb) || slices.Contains(unreconciled, deployment.Name) {
				continue
			}
			if request.Verb == "patch" {
				patches[deployment.Name]++
			}
			if request.Verb != "patch" || patches[deployment.Name] > stalePatches {
				r.t.Errorf("unnecessary %s of Deployment %s", request.Verb, deployment.Name)
			}
		}
	}
}

func (r *restore) setRules(rules ...faults.Rule) {
	for _, proxy := range r.proxies {
		proxy.SetRules(rules...)
	}
}

// allRequests returns the requests of all instances other than for the Lease.
func (r *restore) allRequests() (requests []faults.Request) {
	for _, proxy := range r.proxies {
		requests = append(requests, withoutLeases(proxy.Requests())...)
	}
	return requests
}

// TestRestoredEtcd restores etcd with a raised revision while the controller runs, and lets it have the lost state of a resource for a
// while. Not parallel: it restores the shared cluster.
func TestRestoredEtcd(t *testing.T) {
	for _, stale := range []string{"nothing", "foos", "deployments"} {
		runCase(t, "stale "+stale, func(t *testing.T) {
			r := &restore{t: t, namespace: newNamespace(t), proxies: []*faults.Proxy{startProxy(t, outageUser, 0)}}
			controller := startBehindProxy(t, r.proxies[0], "-namespace", r.namespace, "-resync-period=1s")
			controller.waitForLog("Started workers")
			r.takeSnapshot()
			r.moveOn()
			r.proxies[0].InterruptWatches(stale)
			r.restore(true)
			sleep(t, watchFaultDuration)
			r.proxies[0].ResumeWatches(false)
			r.verify()
			checkLog(t, controller.log.String())
		})
	}
}

// Without a raised revision, watches deliver nothing. Until the controller is restarted it must not write from what it has cached. Not
// parallel: it restores the shared cluster.
func TestRestoredEtcdWithoutRaisedRevision(t *testing.T) {
	runCase(t, "restart", func(t *testing.T) {
		r := &restore{t: t, namespace: newNamespace(t), proxies: []*faults.Proxy{startProxy(t, outageUser, 0)}}
		start := func() *process {
			return startBehindProxy(t, r.proxies[0], "-namespace", r.namespace, "-resync-period=1s")
		}
		controller := start()
		controller.waitForLog("Started workers")
		r.takeSnapshot()
		r.moveOn()
		r.restore(false)
		waitForControllerManager(t)
		sleep(t, watchFaultDuration)
		controller.stop(10 * time.Second)
		checkLog(t, controller.log.String())
		start()
		r.verify()
	})
}

// The durations of TestRestoredLease are longer than a restore takes.
const (
	restoredLeaseDuration = 10 * time.Second
	restoredRenewDeadline = 9 * time.Second
)

// TestRestoredLease restores a Lease that the leader has renewed since, or that a standby has acquired while the leader was frozen. Not
// parallel: it restores the shared cluster.
func TestRestoredLease(t *testing.T) {
	for _, takenOver := range []bool{false, true} {
		runCase(t, fmt.Sprintf("taken over: %v", takenOver), func(t *testing.T) {
			r := &restore{t: t, namespace: newNamespace(t)}
			var instances []*instance
			start := func() {
				number := len(instances)
				in := &instance{user: fmt.Sprintf("%s-%s-%d", outageUser, r.namespace, number)}
				in.proxy = startProxy(t, in.user, 0)
				in.process = startBehindProxy(t, in.proxy, append(electionFlags(r.namespace), "-namespace", r.namespace, "-resync-period=1s",
					"-leader-elect-lease-duration", restoredLeaseDuration.String(), "-leader-elect-renew-deadline", restoredRenewDeadline.String())...)
				instances = append(instances, in)
				r.proxies = append(r.proxies, in.proxy)
			}
			start()
			start()
			leader, standbys := waitForLeader(t, instances)
			r.takeSnapshot()
			if takenOver {
				waitForRenewal(t, r.namespace)
				leader.signal(syscall.SIGSTOP)
				waitForLeader(t, standbys)
			}
			r.moveOn()
			r.restore(true)
			if takenOver {
				leader.signal(syscall.SIGCONT)
			}
			start()
			r.requests = append(r.requests, 0)
			if takenOver { // The frozen one may go on, because the Lease is its own again.
				standbys[0].waitForExit(1, convergence)
			}
			r.verify()
			losses := 0
			for _, in := range instances {
				losses += checkNoWritesAfterLoss(t, in.user, in.proxy.Requests(), restoredRenewDeadline)
				checkLog(t, in.log.String())
			}
			// The leader may also read the restored Lease, which is its own, before it gets a conflict: when its first renewal after the
			// restore fails for another reason.
			if takenOver && losses == 0 {
				t.Error("no instance has lost the Lease")
			}
		})
	}
}

// waitForRenewal waits until the Lease has been renewed in a later second: client-go's leader election does not see smaller differences,
// and would take a Lease of the same second for the one that it knew before it took over.
func waitForRenewal(t *testing.T, namespace string) {
	t.Helper()
	renewed := func() int64 {
		lease, err := kubeClient.CoordinationV1().Leases(namespace).Get(t.Context(), leaseName(namespace), metav1.GetOptions{})
		requireNoError(t, err)
		return lease.Spec.RenewTime.Unix()
	}
	before := renewed()
	eventually(t, convergence, func() error {
		if renewed() == before {
			return errors.New("the Lease has not been renewed")
		}
		return nil
	})
}
