// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// The shortest durations that leader election supports: a Lease counts in seconds.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// startCandidate starts a controller for a namespace with leader election.
func startCandidate(t *testing.T, user, namespace string, seed uint64, flags ...string) *instance {
	t.Helper()
	in := startInstance(t, user, namespace, seed, slices.Concat([]string{
		"-leader-elect", "-leader-elect-resource-namespace", namespace, "-leader-elect-lease-duration", leaseDuration.String(),
		"-leader-elect-renew-deadline", renewDeadline.String(), "-leader-elect-retry-period", retryPeriod.String(),
	}, flags)...)
	in.waitForLog("Attempting to acquire leader lease")
	return in
}

func (in *instance) leads() bool { return strings.Contains(in.log.String(), "Started workers") }

// waitForLeader waits until one of the instances leads.
func waitForLeader(t *testing.T, timeout time.Duration, instances []*instance) (leader *instance, others []*instance) {
	t.Helper()
	eventually(t, timeout, func() error {
		i := slices.IndexFunc(instances, (*instance).leads)
		if i < 0 {
			return fmt.Errorf("none of %d instances is the leader", len(instances))
		}
		leader, others = instances[i], slices.Delete(slices.Clone(instances), i, i+1)
		return nil
	})
	if slices.ContainsFunc(others, (*instance).leads) {
		t.Fatal("more than one instance is the leader")
	}
	return leader, others
}

// leaderFaults are what ends the term of a leader.
var leaderFaults = []struct {
	name  string
	flags []string
	idle  bool // when it begins. A frozen process has no request under way, which it would send later.
	begin func(leader *instance)
	code  int // with which the leader exits
}{
	{"shut down", []string{"-leader-elect-lease-duration=10m"}, false, func(leader *instance) { leader.signal(syscall.SIGTERM) }, 0},
	{"killed", nil, false, func(leader *instance) { leader.signal(syscall.SIGKILL) }, -1},
	{"frozen", nil, true, func(leader *instance) { leader.signal(syscall.SIGSTOP) }, 1},
	{"cut off", nil, false, func(leader *instance) {
		leader.proxy.SetRules(faults.Rule{Fault: faults.DropRequest})
		leader.proxy.CloseConnections()
	}, 1},
}

// Not parallel to other tests: it measures latency.
func TestLeaderIsReplaced(t *testing.T) {
	for _, fault := range leaderFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			// A busy machine must not depose a leader earlier than the fault does.
			const duration = 6 * time.Second
			flags := append([]string{"-leader-elect-lease-duration", duration.String(), "-leader-elect-renew-deadline=5s"}, fault.flags...)
			var instances []*instance
			for i := range 3 {
				instances = append(instances, startCandidate(t, fmt.Sprintf("%s-%d", namespace, i), namespace, 0, flags...))
			}
			leader, standbys := waitForLeader(t, convergence, instances)
			createReadyFoo(t, namespace, "before", "before", 1)
			createNewFoos(t, namespace)
			if fault.idle {
				waitForNewFoos(t, namespace)
				waitUntilStable(t, time.Second, func() []faults.Request { return withoutLeases(leader.proxy.Requests()) })
			} // Otherwise the leader has not reconciled all of the Foos yet.
			fault.begin(leader)
			createFoo(t, namespace, "gap", "gap", 1)
			next, _ := waitForLeader(t, duration+15*time.Second, standbys) // with time for requests and polling
			replaced := time.Now()
			waitForNewFoos(t, namespace)
			waitForReplicas(t, namespace, "gap", 1)
			leader.command.Process.Signal(syscall.SIGCONT) // It fails if the process has exited.
			leader.waitForExit(fault.code)
			if last := leader.errorLine(); fault.code == 1 && !strings.Contains(last, "leader election lost") {
				t.Errorf("the last line is %q, want an error that the lease was lost", last)
			}
			createReadyFoo(t, namespace, "last", "last", 1)
			lease, err := kubeClient.CoordinationV1().Leases(namespace).Get(t.Context(), "sample-controller-"+namespace, metav1.GetOptions{})
			if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
				t.Errorf("the Lease is %v (%v), want one that is held", lease, err)
			}
			for _, in := range []*instance{leader, next} {
				if len(writesIn(withoutLeases(in.proxy.Requests()))) == 0 {
					t.Error("a leader has made no writes")
				}
			}
			for _, request := range withoutLeases(leader.proxy.Requests()) {
				if request.Sent.After(replaced) && slices.Contains(faults.Writes, request.Verb) {
					t.Errorf("the leader that was replaced has sent %s %s %s", request.Verb, request.Resource, request.Name)
				}
			}
		})
	}
}

// A Lease that may not be read is reported at once, and ends the process after -cache-sync-timeout.
func TestForbiddenLease(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	user := outageUser + "-" + namespace
	kubectl(t, "create", "clusterrole", user, "--verb=get,list,watch", "--resource=deployments.apps,foos.samplecontroller.k8s.io")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrole", user) })
	kubectl(t, "create", "rolebinding", "-n", namespace, user, "--clusterrole="+user, "--user="+user)
	// It may access another Lease.
	kubectl(t, "create", "role", "-n", namespace, user, "--verb=get,update", "--resource=leases", "--resource-name=sample-controller")
	kubectl(t, "create", "rolebinding", "-n", namespace, user+"-leases", "--role="+user, "--user="+user)
	kubeconfig, err := local.KubeconfigFor(user)
	requireNoError(t, err)
	p := startProcess(t, "-kubeconfig", kubeconfig, "-namespace", namespace, "-leader-elect",
		"-leader-elect-resource-namespace", namespace, "-leader-elect-retry-period=200ms", "-cache-sync-timeout=6s")
	const message = "Cannot access the Lease"
	p.waitForLog(message)
	select {
	case <-p.exited:
		t.Error("the controller exited at once")
	default:
	}
	p.waitForExit(1)
	for _, line := range []string{firstLineWith(p.log.String(), message), p.errorLine()} {
		for _, want := range []string{`cannot get resource`, "leases", "-leader-elect-resource-name"} {
			if !strings.Contains(line, want) {
				t.Errorf("the log says %q, want it to contain %q", line, want)
			}
		}
	}
	if count := strings.Count(p.log.String(), message); count != 1 {
		t.Errorf("it was logged %d times, want once", count)
	}
}

func firstLineWith(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

func withoutLeases(requests []faults.Request) []faults.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(request faults.Request) bool { return request.Resource == "leases" })
}
