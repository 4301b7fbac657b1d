// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

// The shortest durations that leader election supports: a Lease counts in seconds.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// instance is one of several controllers with leader election. Each has a user name of its own, so that requests can be attributed.
type instance struct {
	*process
	user   string
	health string        // address of the health endpoints, if any
	proxy  *faults.Proxy // nil if it connects to the API server directly
}

// startInstances starts controllers for a namespace with leader election, and waits until all are ready.
func startInstances(t *testing.T, namespace string, count int, flags ...string) []*instance {
	t.Helper()
	var instances []*instance
	for i := range count {
		in := &instance{user: fmt.Sprintf("%s-%d", namespace, i), health: freeAddress(t)}
		in.process = startProcess(t, slices.Concat(electionFlags(namespace), flags, []string{
			"-kubeconfig", kubeconfigFor(t, in.user), "-namespace", namespace, "-v=4", "-health-probe-bind-address", in.health,
		})...)
		instances = append(instances, in)
	}
	for _, in := range instances {
		in.waitForHealth("/readyz", http.StatusOK)
	}
	return instances
}

// startProxiedInstance starts a controller for a namespace with leader election behind a proxy.
func startProxiedInstance(t *testing.T, namespace string, number int) *instance {
	t.Helper()
	in := &instance{user: fmt.Sprintf("%s-%d", namespace, number)}
	in.proxy = startProxy(t, in.user, 0)
	in.process = startBehindProxy(t, in.proxy, append(electionFlags(namespace), "-namespace", namespace)...)
	return in
}

func electionFlags(namespace string) []string {
	return []string{
		"-leader-elect", "-leader-elect-resource-namespace", namespace, "-leader-elect-lease-duration", leaseDuration.String(),
		"-leader-elect-renew-deadline", renewDeadline.String(), "-leader-elect-retry-period", retryPeriod.String(),
	}
}

func (in *instance) leads() bool { return strings.Contains(in.log.String(), "Started workers") }

// check checks the log and the writes of a proxied instance, and returns how many writes were checked against the Lease.
func (in *instance) check(history *history) int {
	in.t.Helper()
	requests := in.proxy.Requests()
	checked := history.checkLeadership(requests)
	history.checkWrites(requests)
	checkLog(in.t, in.log.String())
	return checked
}

// waitForHealth waits until a health endpoint responds with a status code.
func (in *instance) waitForHealth(path string, status int) {
	in.t.Helper()
	eventually(in.t, convergence, func() error {
		if got, body := get(in.health, path); got != status {
			return fmt.Errorf("%s = %d %s, want %d", path, got, body, status)
		}
		return nil
	})
}

// waitForLeader waits until one of the instances leads.
func waitForLeader(t *testing.T, instances []*instance) (leader *instance, others []*instance) {
	t.Helper()
	eventually(t, convergence, func() error {
		leader, others = nil, nil
		for _, in := range instances {
			if in.leads() {
				leader = in
			} else {
				others = append(others, in)
			}
		}
		if leader == nil {
			return fmt.Errorf("none of %d instances is the leader", len(instances))
		}
		return nil
	})
	if len(others) != len(instances)-1 {
		t.Fatal("more than one instance is the leader")
	}
	return leader, others
}

func TestLeaderReleasesLeaseOnShutdown(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	leader, standbys := waitForLeader(t, startInstances(t, namespace, 3,
		"-leader-elect-lease-duration=10m", "-leader-elect-renew-deadline=9m")) // The Lease does not expire.
	createReadyFoo(t, namespace, "before", "before", 1)

	leader.signal(syscall.SIGTERM)
	createFoo(t, namespace, "gap", "gap", 1)
	leader.waitForExit(0, 10*time.Second)
	next, _ := waitForLeader(t, standbys)
	waitForReplicas(t, namespace, "gap", 1)
	if len(writesOf(t, next.user)) == 0 {
		t.Error("the next leader has made no writes")
	}
}

// Not parallel: it measures latency.
func TestKilledLeaderIsReplaced(t *testing.T) {
	namespace := newNamespace(t)
	leader, standbys := waitForLeader(t, startInstances(t, namespace, 3))
	leader.signal(syscall.SIGKILL)
	killed := time.Now()
	createFoo(t, namespace, "gap", "gap", 1)
	within := leaseDuration + retryPeriod + 5*time.Second // five seconds for requests and polling
	var next *instance
	eventually(t, within-time.Since(killed), func() error {
		for _, in := range standbys {
			if in.leads() {
				next = in
				return nil
			}
		}
		return errors.New("no standby has taken over")
	})
	waitForReplicas(t, namespace, "gap", 1)
	if got := writesOf(t, next.user); len(got) == 0 {
		t.Error("the Foo was not reconciled by the next leader")
	}
}

func TestFrozenLeaderDoesNotWrite(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	leader, standbys := waitForLeader(t, startInstances(t, namespace, 2))
	createReadyFoo(t, namespace, "before", "before", 1)
	leader.signal(syscall.SIGSTOP)
	createFoo(t, namespace, "gap", "gap", 1)
	next, _ := waitForLeader(t, standbys)
	waitForReplicas(t, namespace, "gap", 1)
	before := len(writesOf(t, leader.user))
	for i := range 5 { // work for the frozen leader when it is resumed
		name := fmt.Sprintf("after-%d", i)
		createReadyFoo(t, namespace, name, name, 1)
	}

	leader.signal(syscall.SIGCONT)
	leader.waitForExit(1, 10*time.Second)
	if last := leader.errorLine(); !strings.Contains(last, "leader election lost") {
		t.Errorf("the last line is %q, want an error that the lease was lost", last)
	}
	createReadyFoo(t, namespace, "last", "last", 1)
	if writes := writesOf(t, leader.user)[before:]; len(writes) > 0 {
		t.Errorf("the old leader made writes after its lease had expired: %q", writes)
	}
	lease, err := kubeClient.CoordinationV1().Leases(namespace).Get(t.Context(), "sample-controller-"+namespace, metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		t.Errorf("the Lease is %v (%v), want one that is held", lease, err)
	}
	if !next.leads() {
		t.Error("the next leader does not lead anymore")
	}
}

// Not parallel: it freezes the API server.
func TestLeaderThatCannotRenewExits(t *testing.T) {
	namespace := newNamespace(t)
	leader, standbys := waitForLeader(t, startInstances(t, namespace, 2,
		"-leader-elect-lease-duration=7s", "-leader-elect-renew-deadline=6s")) // /livez fails for three seconds before the leader exits.
	leader.waitForHealth("/livez", http.StatusOK)
	createFoo(t, namespace, "in-flight", "in-flight", 1) // so that requests are in flight
	requireNoError(t, local.Freeze(cluster.APIServer))
	t.Cleanup(func() { local.Resume(cluster.APIServer) })
	leader.waitForHealth("/livez", http.StatusInternalServerError)
	leader.waitForExit(1, 20*time.Second)
	standbys[0].waitForHealth("/livez", http.StatusOK)
	requireNoError(t, local.Resume(cluster.APIServer))
	createReadyFoo(t, namespace, "later", "later", 1)
}

// Not parallel: it measures latency.
func TestPartitionedLeaderIsReplaced(t *testing.T) {
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	instances := []*instance{startProxiedInstance(t, namespace, 0), startProxiedInstance(t, namespace, 1)}
	leader, standbys := waitForLeader(t, instances)
	const foos = 10
	createFooWithRetry(t, namespace, "foo-0")
	leader.waitForLog("Updated status")
	for i := 1; i < foos; i++ {
		createFooWithRetry(t, namespace, fmt.Sprintf("foo-%d", i))
	}
	// The leader has not reconciled all of the Foos yet.
	leader.proxy.SetRules(faults.Rule{Fault: faults.DropRequest})
	leader.proxy.CloseConnections()
	leader.waitForExit(1, 20*time.Second)
	waitForLeader(t, standbys)
	for i := range foos {
		waitForReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("foo-%d", i), 1)
	}
	for _, in := range instances {
		if in.check(history) == 0 {
			t.Errorf("%s has made no writes that could be checked", in.user)
		}
	}
}

func TestConcurrentRollouts(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	var instances []*instance
	start := func() {
		in := startProxiedInstance(t, namespace, len(instances))
		in.waitForLog("Attempting to acquire leader lease")
		instances = append(instances, in)
	}
	start()
	start()
	waitForLeader(t, instances)
	const foos = 30
	go func() {
		for i := range foos {
			createFooWithRetry(t, namespace, fmt.Sprintf("foo-%d", i))
		}
	}()
	// Each rollout replaces both instances. The second one replaces those of the first one, whether or not they lead already.
	for range 2 {
		for _, old := range instances[len(instances)-2:] {
			start()
			old.signal(syscall.SIGTERM)
		}
	}
	for _, old := range instances[:len(instances)-2] {
		old.waitForExit(0, 20*time.Second)
	}
	for i := range foos {
		eventually(t, convergence, func() error {
			_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Get(t.Context(), fmt.Sprintf("foo-%d", i), metav1.GetOptions{})
			return err
		})
		waitForReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("foo-%d", i), 1)
	}
	checked := 0
	for _, in := range instances {
		checked += in.check(history)
	}
	if checked < len(newFooWrites[:3])*foos {
		t.Errorf("%d writes were checked, want at least those for %d Foos", checked, foos)
	}
}

func TestLeasePerNamespace(t *testing.T) {
	t.Parallel()
	leases := newNamespace(t)
	for range 2 {
		namespace := newNamespace(t)
		startController(t, namespace, "-leader-elect", "-leader-elect-resource-namespace", leases)
	}
}
