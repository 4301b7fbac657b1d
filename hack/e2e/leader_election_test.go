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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/e2e/faults"
)

// The times of the elections in the tests: as short as the Lease can have them.
const (
	leaseDuration = 3 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// instance is one of several programs under test, with a user of its own, so that its requests can be told apart.
type instance struct {
	*process
	user   string
	health string
}

// startInstances starts programs that elect one of them for a namespace, and waits until all are ready.
func startInstances(t *testing.T, namespace string, count int, flags ...string) []*instance {
	t.Helper()
	var instances []*instance
	for i := range count {
		in := &instance{user: fmt.Sprintf("%s-%d", namespace, i), health: freeAddress(t)}
		in.process = startProgram(t, slices.Concat(electionFlags(namespace), flags, []string{
			"-kubeconfig", kubeconfigFor(t, in.user), "-namespace", namespace, "-v=4", "-health-probe-bind-address", in.health,
		})...)
		instances = append(instances, in)
	}
	for _, in := range instances {
		in.wantHealth("/readyz", http.StatusOK)
	}
	return instances
}

func electionFlags(namespace string) []string {
	return []string{
		"-leader-elect", "-leader-elect-resource-namespace", namespace, "-leader-elect-lease-duration", leaseDuration.String(),
		"-leader-elect-renew-deadline=2s", "-leader-elect-retry-period", retryPeriod.String(),
	}
}

func (in *instance) leads() bool { return strings.Contains(in.log.String(), "Started workers") }

// wantHealth waits until a path of the health endpoint is answered with the given status.
func (in *instance) wantHealth(path string, status int) {
	in.t.Helper()
	eventually(in.t, convergence, func() error {
		if got, body := get(in.health, path); got != status {
			return fmt.Errorf("%s is answered with %d %s, want %d", path, got, body, status)
		}
		return nil
	})
}

// theLeader waits until one of the instances leads, and returns it, and the others.
func theLeader(t *testing.T, instances []*instance) (leader *instance, others []*instance) {
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
			return fmt.Errorf("none of %d instances leads", len(instances))
		}
		return nil
	})
	if len(others) != len(instances)-1 {
		t.Fatal("more than one instance leads")
	}
	return leader, others
}

// Not parallel: it measures a time.
func TestALeaderThatIsToldToStopHandsOverWithinSeconds(t *testing.T) {
	namespace := newNamespace(t)
	leader, standbys := theLeader(t, startInstances(t, namespace, 3))
	createFoo(t, namespace, "before", "before", 1)
	wantReplicas(t, namespace, "before", 1)

	leader.signal(syscall.SIGTERM)
	told := time.Now()
	createFoo(t, namespace, "gap", "gap", 1)
	leader.wantExit(0, 10*time.Second)
	next, _ := theLeader(t, standbys)
	eventually(t, 3*time.Second-time.Since(told), func() error {
		if len(writesOf(t, next.user)) == 0 {
			return fmt.Errorf("the next leader has not written")
		}
		return nil
	})
	wantReplicas(t, namespace, "gap", 1)
}

// Not parallel: it measures a time.
func TestALeaderThatIsKilledIsReplacedWhenItsLeaseEnds(t *testing.T) {
	namespace := newNamespace(t)
	leader, standbys := theLeader(t, startInstances(t, namespace, 3))
	leader.signal(syscall.SIGKILL)
	killed := time.Now()
	createFoo(t, namespace, "gap", "gap", 1)
	within := leaseDuration + retryPeriod + time.Second // The last is for the requests, and for this test to look.
	var next *instance
	eventually(t, within-time.Since(killed), func() error {
		for _, in := range standbys {
			if in.leads() {
				next = in
				return nil
			}
		}
		return fmt.Errorf("nobody has taken over")
	})
	wantReplicas(t, namespace, "gap", 1)
	if got := writesOf(t, next.user); len(got) == 0 {
		t.Error("the Foo was served, but not by the next leader")
	}
}

func TestALeaderThatWasFrozenPastItsLeaseEndsWithoutAWrite(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	// It is about to create a Deployment when it freezes: the request is on its way through the gate.
	leader, standbys := theLeader(t, startInstances(t, namespace, 2))
	createFoo(t, namespace, "before", "before", 1)
	wantReplicas(t, namespace, "before", 1)
	leader.signal(syscall.SIGSTOP)
	createFoo(t, namespace, "gap", "gap", 1)
	next, _ := theLeader(t, standbys)
	wantReplicas(t, namespace, "gap", 1)
	before := len(writesOf(t, leader.user))
	for i := range 5 { // So that it has something to do.
		name := fmt.Sprintf("after-%d", i)
		createFoo(t, namespace, name, name, 1)
		wantReplicas(t, namespace, name, 1)
	}

	leader.signal(syscall.SIGCONT)
	leader.wantExit(1, 10*time.Second)
	if last := leader.lastLine(); !strings.Contains(last, "leader lease was lost") {
		t.Errorf("the last line is %q", last)
	}
	createFoo(t, namespace, "last", "last", 1)
	wantReplicas(t, namespace, "last", 1)
	if writes := writesOf(t, leader.user)[before:]; len(writes) > 0 {
		t.Errorf("the old leader wrote after its lease had ended: %q", writes)
	}
	holder, err := kubeClient.CoordinationV1().Leases(namespace).Get(t.Context(), "sample-controller-"+namespace, metav1.GetOptions{})
	if err != nil || holder.Spec.HolderIdentity == nil || *holder.Spec.HolderIdentity == "" {
		t.Errorf("the lease is %v (%v): the old leader took it from the next one", holder, err)
	}
	if !next.leads() {
		t.Error("the next leader does not lead any more")
	}
}

// Not parallel: it freezes the API server.
func TestALeaderThatCannotRenewIsNotLiveAndEnds(t *testing.T) {
	namespace := newNamespace(t)
	leader, standbys := theLeader(t, startInstances(t, namespace, 2))
	leader.wantHealth("/livez", http.StatusOK)
	createFoo(t, namespace, "in-flight", "in-flight", 1) // So that requests are on their way when the server freezes.
	if err := local.Freeze(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Resume(cluster.APIServer) })
	leader.wantHealth("/livez", http.StatusInternalServerError)
	leader.wantExit(1, 20*time.Second)
	standbys[0].wantHealth("/livez", http.StatusOK)
	if err := local.Resume(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	createFoo(t, namespace, "later", "later", 1)
	wantReplicas(t, namespace, "later", 1)
}

// Not parallel: it measures times.
func TestALeaderThatIsCutOffEndsAndAnotherTakesOver(t *testing.T) {
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	proxies := map[*instance]*faults.Proxy{}
	var instances []*instance
	for i := range 2 {
		in := &instance{user: fmt.Sprintf("%s-%d", namespace, i), health: freeAddress(t)}
		proxy := startProxy(t, in.user, 0)
		in.process = startBehind(t, proxy, append(electionFlags(namespace), "-namespace", namespace, "-health-probe-bind-address", in.health)...)
		instances, proxies[in] = append(instances, in), proxy
	}
	leader, standbys := theLeader(t, instances)
	// It is cut off while it works.
	for i := range 10 {
		createFooSurely(t, namespace, fmt.Sprintf("before-%d", i))
	}
	proxies[leader].SetRules(faults.Rule{Fault: faults.Drop})
	proxies[leader].CutConnections()
	leader.wantExit(1, 20*time.Second)
	theLeader(t, standbys)
	for i := range 10 {
		wantReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("before-%d", i), 1)
	}
	for in, proxy := range proxies {
		if history.judgeLeadership(proxy.Requests()) == 0 {
			t.Errorf("%s has written nothing, so that nothing is proven", in.user)
		}
		history.judge(proxy.Requests())
		wantHealthy(t, in.log.String())
	}
}

func TestTwoRolloutsAtOnce(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	var proxies []*faults.Proxy
	var instances []*instance
	start := func() {
		proxy := startProxy(t, fmt.Sprintf("%s-%d", namespace, len(instances)), 0)
		p := startBehind(t, proxy, append(electionFlags(namespace), "-namespace", namespace)...)
		p.waitForLog("Starting Foo controller")
		instances, proxies = append(instances, &instance{process: p}), append(proxies, proxy)
	}
	start()
	start()
	theLeader(t, instances)
	const foos = 30
	go func() {
		for i := range foos {
			createFooSurely(t, namespace, fmt.Sprintf("foo-%d", i))
		}
	}()
	// Both rollouts replace both instances: what the first one starts, the second one ends, whether it leads already or not.
	for range 2 {
		for _, old := range instances[len(instances)-2:] {
			start()
			old.signal(syscall.SIGTERM)
		}
	}
	for _, old := range instances[:len(instances)-2] {
		old.wantExit(0, 20*time.Second)
	}
	for i := range foos {
		eventually(t, convergence, func() error {
			_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Get(t.Context(), fmt.Sprintf("foo-%d", i), metav1.GetOptions{})
			return err
		})
		wantReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("foo-%d", i), 1)
	}
	judged := 0
	for i, proxy := range proxies {
		judged += history.judgeLeadership(proxy.Requests())
		history.judge(proxy.Requests())
		wantHealthy(t, instances[i].log.String())
	}
	if judged < len(newFoo[:3])*foos {
		t.Errorf("%d writes were judged, want those of %d Foos", judged, foos)
	}
}

func TestInstancesOfDifferentNamespacesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	leases := newNamespace(t)
	for range 2 {
		namespace := newNamespace(t)
		startController(t, namespace, "-leader-elect", "-leader-elect-resource-namespace", leases)
	}
}
