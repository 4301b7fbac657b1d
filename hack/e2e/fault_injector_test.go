// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

// faultInjector injects random faults into the instances and the cluster, one after the other, while requests fail at random.
type faultInjector struct {
	t         *testing.T
	users     *users
	random    *rand.Rand
	instances []*restartingInstance
	counts    map[string]int
	backoffs  int // number of faults that let a backoff grow
	stopping  chan struct{}
	stopped   chan struct{}
	// wait ends the injection once the current fault is over.
	wait func()
}

// requestFaultProbability is the probability that a request or watch fails during a random walk.
const requestFaultProbability = 0.1

// injectedFault is a fault of an instance, of the cluster, or of its other users.
type injectedFault struct {
	name string
	// backsOff says that the controller backs off from writing Deployments.
	backsOff bool
	// inject injects the fault, if it is one of an instance into that one, and returns once it is over.
	inject func(f *faultInjector, in *restartingInstance)
}

var processFaults = []injectedFault{
	{name: "controller killed", inject: func(_ *faultInjector, in *restartingInstance) { in.terminate(syscall.SIGKILL) }},
	{name: "controller terminated", inject: func(_ *faultInjector, in *restartingInstance) { in.terminate(syscall.SIGTERM) }},
	{name: "controller frozen", inject: func(f *faultInjector, in *restartingInstance) {
		run := in.current().command.Process
		run.Signal(syscall.SIGSTOP) // Both signals fail only if the process has exited.
		sleep(f.t, 2*leaseDuration)
		run.Signal(syscall.SIGCONT)
	}},
	{name: "controller partitioned", inject: func(f *faultInjector, in *restartingInstance) {
		in.proxy.SetRules(faults.Rule{Name: "request while partitioned", Fault: faults.DropRequest})
		in.proxy.CloseConnections()
		sleep(f.t, 2*leaseDuration)
		f.setRules()
	}},
	{name: "connections closed", inject: func(_ *faultInjector, in *restartingInstance) { in.proxy.CloseConnections() }},
	{name: "watches held", inject: func(f *faultInjector, in *restartingInstance) {
		in.proxy.HoldWatches(f.randomResources()...)
		sleep(f.t, watchFaultDuration)
		in.proxy.ReleaseWatches()
	}},
	{name: "watches interrupted", inject: func(f *faultInjector, in *restartingInstance) {
		in.proxy.InterruptWatches(f.randomResources()...)
		sleep(f.t, watchFaultDuration)
		in.proxy.ResumeWatches(f.random.IntN(2) == 0)
	}},
	{name: "API server killed", inject: func(f *faultInjector, _ *restartingInstance) {
		f.outage(kill(cluster.APIServer), restart(cluster.APIServer))
	}},
	{name: "API server frozen", inject: func(f *faultInjector, _ *restartingInstance) {
		f.outage(freeze(cluster.APIServer), resume(cluster.APIServer))
	}},
	{name: "etcd killed", inject: func(f *faultInjector, _ *restartingInstance) { f.outage(kill(cluster.Etcd), restart(cluster.Etcd)) }},
	{name: "etcd frozen", inject: func(f *faultInjector, _ *restartingInstance) { f.outage(freeze(cluster.Etcd), resume(cluster.Etcd)) }},
	{name: "controller manager killed", inject: func(f *faultInjector, _ *restartingInstance) {
		f.outage(kill(cluster.ControllerManager), restart(cluster.ControllerManager))
		waitForControllerManager(f.t) // It exits if the API server is not available at startup.
	}},
	{name: "permissions revoked", backsOff: true, inject: func(f *faultInjector, _ *restartingInstance) { f.outage(revokePermissions, restorePermissions) }},
}

// walkLease is the Lease of the instances, which is in the first namespace of a walk.
const walkLease = "sample-controller"

// seizures take the Lease away from the leader.
var seizures = []injectedFault{
	{name: "Lease deleted", inject: func(f *faultInjector, _ *restartingInstance) {
		err := kubeClient.CoordinationV1().Leases(f.users.namespaces[0]).Delete(f.t.Context(), walkLease, metav1.DeleteOptions{})
		f.expectLeaseChange(err)
	}},
	{name: "Lease cleared", inject: func(f *faultInjector, _ *restartingInstance) { f.seizeLease(cleared()) }},
	{name: "Lease handed over", inject: func(f *faultInjector, _ *restartingInstance) { f.seizeLease(handedOver()) }},
}

func (f *faultInjector) seizeLease(spec map[string]any) {
	lease, err := patchLease(f.t.Context(), f.users.namespaces[0], walkLease, spec)
	f.expectLeaseChange(err)
	if err == nil {
		f.users.history.addSeizure(lease)
	}
}

// expectLeaseChange fails the test if there is an error other than that the Lease has just been deleted.
func (f *faultInjector) expectLeaseChange(err error) {
	if !apierrors.IsNotFound(err) && f.t.Context().Err() == nil {
		expectNoError(f.t, err)
	}
}

// interferences are others that change what the controller writes.
var interferences = []injectedFault{
	{name: "image or label changed by admission", backsOff: true, inject: func(f *faultInjector, _ *restartingInstance) {
		policy := overrides[f.random.IntN(len(overrides))].mutation
		if err := applyPolicy(f.t, policy, f.users.namespaces...); err == nil {
			f.sleepDuringInterference()
		} else {
			f.t.Error(err)
		}
		expectNoError(f.t, removePolicy(f.t, policy, f.users.namespaces...))
	}},
	{name: "replicas restored by another client", backsOff: true, inject: func(f *faultInjector, _ *restartingInstance) { f.restore(restoreReplicas(5)) }},
	{name: "image restored by another client", backsOff: true, inject: func(f *faultInjector, _ *restartingInstance) { f.restore(restoreImage("restored")) }},
}

// restore lets another client restore its own value in a random Deployment.
func (f *faultInjector) restore(r restoration) {
	namespace := f.users.namespaces[f.random.IntN(namespaceCount)]
	stop := r.start(f.t, namespace, initialName(f.random.IntN(foosPerNamespace+1)))
	f.sleepDuringInterference()
	stop()
}

// failingRequests are the partial outages other than those of lists and watches: the backoff of client-go's informers grows up to a
// minute with each error, and is reset only after two minutes without one.
func failingRequests() (injected []injectedFault) {
	for _, outage := range partialOutages {
		if slices.Contains(outage.verbs, "watch") {
			continue
		}
		injected = append(injected, injectedFault{
			name:     "partial outage of " + outage.name,
			backsOff: slices.Contains(outage.resources, "deployments"),
			inject: func(f *faultInjector, _ *restartingInstance) {
				fault := partialOutageFaults[f.random.IntN(len(partialOutageFaults))].fault
				f.setRules(faults.Rule{Name: "request during partial outage", Verbs: outage.verbs, Resources: outage.resources, Fault: fault})
				f.sleepDuringInterference()
				f.setRules()
			},
		})
	}
	return injected
}

// The backoff of a Foo whose Deployment others change, or the API server rejects, doubles from one second with each write. A walk has
// at most maxBackoffs of these faults, and each takes at most maxInterference. If they follow each other so closely that the backoff
// is never reset, they let the writes at 0, 1, 3, 7 and 15 s fail. The next one is made at 31 s, and counts as overridden until 65 s,
// which is less than 2*convergence after the last fault.
const (
	maxBackoffs     = 3
	minInterference = 2 * time.Second
	maxInterference = 5 * time.Second
)

func (f *faultInjector) sleepDuringInterference() {
	sleep(f.t, minInterference+randomDuration(f.random, maxInterference-minInterference))
}

// setRules injects a fault into the requests of all instances, in addition to the random faults.
func (f *faultInjector) setRules(rules ...faults.Rule) {
	for _, in := range f.instances {
		in.proxy.SetRules(slices.Concat(rules, randomFaults(requestFaultProbability))...)
	}
}

func startFaultInjector(u *users, instances []*restartingInstance, seed uint64) *faultInjector {
	f := &faultInjector{
		t: u.t, users: u, random: rand.New(rand.NewPCG(seed, 1)), instances: instances, counts: map[string]int{},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.wait = sync.OnceFunc(func() {
		close(f.stopping)
		<-f.stopped
	})
	f.setRules()
	go f.run()
	u.t.Cleanup(f.wait) // The tests that follow need a working cluster, even if this test fails.
	return f
}

func (f *faultInjector) run() {
	defer close(f.stopped)
	injectable := slices.Concat(processFaults, seizures, interferences, failingRequests())
	for {
		select {
		case <-f.stopping:
			return
		case <-f.t.Context().Done():
			return
		case <-time.After(randomDuration(f.random, time.Second)):
		}
		fault := injectable[f.random.IntN(len(injectable))]
		if fault.backsOff {
			if f.backoffs == maxBackoffs {
				continue
			}
			f.backoffs++
		}
		logStep(f.t, fault.name)
		f.counts[fault.name]++
		fault.inject(f, f.instances[f.random.IntN(len(f.instances))])
	}
}

// stop ends all faults and returns the number of injected faults by name.
func (f *faultInjector) stop() map[string]int {
	f.t.Helper()
	f.wait()
	for _, in := range f.instances {
		in.proxy.SetRules()
		f.counts = addCounts(f.counts, in.proxy.Injected())
	}
	return f.counts
}

func (f *faultInjector) randomResources() []string {
	return watchedResources[f.random.IntN(len(watchedResources))]
}

func (f *faultInjector) outage(begin, end func(t *testing.T)) {
	begin(f.t)
	sleep(f.t, randomDuration(f.random, outageDuration))
	end(f.t)
}

// logStep logs a step of a random walk with its time, for the analysis of failures.
func logStep(t *testing.T, step string) { t.Logf("%s %s", time.Now().Format("15:04:05.000"), step) }

// randomDuration returns a random duration below a limit.
func randomDuration(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}
