// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// scenario is a change to the desired state that the controller has to reconcile.
type scenario struct {
	name string
	// prepare creates the initial state and returns once it is reconciled. No faults are injected meanwhile.
	prepare func(t *testing.T, namespace string)
	change  func(t *testing.T, namespace string)
	// waitForResult returns once the desired state is reached.
	waitForResult func(t *testing.T, namespace string)
}

var scenarios = []scenario{
	{
		name:          "create",
		prepare:       func(*testing.T, string) {},
		change:        func(t *testing.T, namespace string) { createFoo(t, namespace, "foo", "first", 2) },
		waitForResult: fooIsReady("first", 2, convergence),
	},
	{
		name:          "scale",
		prepare:       createFirst,
		change:        func(t *testing.T, namespace string) { kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=3") },
		waitForResult: fooIsReady("first", 3, convergence),
	},
	{
		name:          "rename",
		prepare:       createFirst,
		change:        func(t *testing.T, namespace string) { rename(t, namespace, "foo", "second") },
		waitForResult: fooIsReady("second", 1, convergence),
	},
	{
		name: "conflict and takeover",
		prepare: func(t *testing.T, namespace string) {
			kubectl(t, "create", "deployment", "-n", namespace, "first", "--image=other")
		},
		change: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			waitForStalled(t, namespace, "foo", "ErrResourceExists")
			kubectl(t, "delete", "-n", namespace, "deployment/first")
		},
		waitForResult: fooIsReady("first", 1, convergence),
	},
	{
		name:    "delete and recreate",
		prepare: createFirst,
		change: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "foo/foo", "--wait=false")
			createFoo(t, namespace, "foo", "first", 2)
		},
		waitForResult: func(t *testing.T, namespace string) {
			fooIsReady("first", 2, 2*convergence)(t, namespace)
			if foo := getFoo(t, namespace, "foo"); !metav1.IsControlledBy(getDeployment(t, namespace, "first"), foo) {
				t.Error("the Deployment is not controlled by the new Foo")
			}
		},
	},
}

func createFirst(t *testing.T, namespace string) {
	t.Helper()
	createReadyFoo(t, namespace, "foo", "first", 1)
}

// fooIsReady returns a function that waits until the Foo is ready and its Deployment is the only one in the namespace.
func fooIsReady(deploymentName string, replicas int32, timeout time.Duration) func(*testing.T, string) {
	return func(t *testing.T, namespace string) {
		t.Helper()
		waitForReplicasWithin(t, timeout, namespace, "foo", replicas)
		waitForDeployments(t, namespace, deploymentName)
	}
}

// watchFaultDuration is how long watches are held or interrupted.
const watchFaultDuration = 2 * time.Second

// writeFaults are the faults that are injected into each write request of the controller.
var writeFaults = []struct {
	name  string
	fault func(r *scenarioRun) faults.Fault
}{
	{"killed before", func(r *scenarioRun) faults.Fault { return faults.Before(r.restart) }},
	{"killed after", func(r *scenarioRun) faults.Fault { return faults.After(r.restart) }},
	{"response dropped", func(*scenarioRun) faults.Fault { return faults.DropResponse }},
	{"connection closed", func(r *scenarioRun) faults.Fault { return faults.Before(r.proxy.CloseConnections) }},
	{"rejected with 409", func(*scenarioRun) faults.Fault {
		return faults.Reject(http.StatusConflict, metav1.StatusReasonConflict)
	}},
	{"rejected with 429", func(*scenarioRun) faults.Fault {
		return faults.Reject(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	}},
	{"rejected with 500", func(*scenarioRun) faults.Fault {
		return faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}},
	{"rejected with 503", func(*scenarioRun) faults.Fault {
		return faults.Reject(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}},
	{"applied, failed with 504", func(*scenarioRun) faults.Fault {
		return faults.FailAfterApply(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	}},
	{"watches of Foos held", func(r *scenarioRun) faults.Fault { return r.holdWatches("foos") }},
	{"watches of Deployments held", func(r *scenarioRun) faults.Fault { return r.holdWatches("deployments") }},
	{"all watches held", func(r *scenarioRun) faults.Fault { return r.holdWatches("foos", "deployments") }},
}

// TestWriteFaults injects each fault into each write of each scenario. The same state must be reached, with few additional writes,
// and must be stable.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			baseline := startScenario(t, scenario, 0).execute(t)
			t.Logf("writes without faults: %q", baseline)
			for n := range baseline {
				for _, fault := range writeFaults {
					runCase(t, fmt.Sprintf("%d %s %s", n+1, baseline[n], fault.name), func(t *testing.T) {
						t.Parallel()
						r := startScenario(t, scenario, 0)
						r.proxy.SetRules(faults.Rule{Name: fault.name, Verbs: faults.Writes, Nth: n + 1, Fault: fault.fault(r)})
						checkWriteCount(t, r.execute(t), baseline)
						if len(r.proxy.Injected()) == 0 {
							t.Logf("no fault was injected: there were fewer than %d writes", n+1)
						}
					})
				}
			}
		})
	}
}

// TestRandomRequestFaults runs each scenario while one in five requests and watches fails.
func TestRandomRequestFaults(t *testing.T) {
	t.Parallel()
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			baseline := startScenario(t, scenario, 0).execute(t)
			for seed := range uint64(3) {
				runCase(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					t.Parallel()
					r := startScenario(t, scenario, seed)
					r.proxy.SetRules(randomFaults(0.2)...)
					checkWriteCount(t, r.execute(t), baseline)
				})
			}
		})
	}
}

// randomFaults returns rules that make a request fail with about the given probability. Half of the faults apply to writes or watches
// only.
func randomFaults(probability float64) []faults.Rule {
	each := probability / 8
	return []faults.Rule{
		{Name: "409", Verbs: faults.Writes, Probability: each, Fault: faults.Reject(http.StatusConflict, metav1.StatusReasonConflict)},
		{Name: "410", Verbs: []string{"watch"}, Probability: each, Fault: faults.Reject(http.StatusGone, metav1.StatusReasonExpired)},
		{Name: "429", Probability: each, Fault: faults.Reject(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
		{Name: "500", Probability: each, Fault: faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{Name: "503", Probability: each, Fault: faults.Reject(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		{Name: "504 after apply", Verbs: faults.Writes, Probability: each, Fault: faults.FailAfterApply(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)},
		{Name: "request dropped", Probability: each, Fault: faults.DropRequest},
		{Name: "response dropped", Verbs: faults.Writes, Probability: each, Fault: faults.DropResponse},
	}
}

// scenarioRun is one run of a scenario with a controller that connects through a proxy.
type scenarioRun struct {
	scenario  scenario
	namespace string
	proxy     *faults.Proxy
	start     func() *process

	lock       sync.Mutex
	controller *process
}

// startScenario starts a controller and prepares the scenario. The seed is that of the proxy.
func startScenario(t *testing.T, s scenario, seed uint64) *scenarioRun {
	t.Helper()
	r := &scenarioRun{scenario: s, namespace: newNamespace(t), proxy: startProxy(t, user, seed)}
	r.start = func() *process { return startBehindProxy(t, r.proxy, "-namespace", r.namespace) }
	r.controller = r.start()
	r.controller.waitForLog("Started workers")
	s.prepare(t, r.namespace)
	r.stableWrites(t)
	return r
}

// execute changes the desired state, waits for the result and returns the writes since the change.
func (r *scenarioRun) execute(t *testing.T) []string {
	t.Helper()
	history := watchHistory(t, r.namespace)
	r.proxy.ResetRequests()
	r.scenario.change(t, r.namespace)
	return r.verify(t, history)
}

// verify waits for the result, checks that it is stable, checks the recorded requests and the log, and returns the writes.
func (r *scenarioRun) verify(t *testing.T, history *history) []string {
	t.Helper()
	r.scenario.waitForResult(t, r.namespace)
	writes := r.stableWrites(t)
	r.scenario.waitForResult(t, r.namespace)
	history.checkWrites(r.proxy.Requests())
	checkLog(t, r.controller.log.String())
	return writes
}

// restart kills the controller and starts it again.
func (r *scenarioRun) restart() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.controller.command.Process.Signal(syscall.SIGKILL)
	<-r.controller.exited
	r.controller = r.start()
}

// holdWatches returns a fault that holds the watches for a while and forwards the request.
func (r *scenarioRun) holdWatches(resources ...string) faults.Fault {
	return faults.During(func() {
		r.proxy.HoldWatches(resources...)
		time.AfterFunc(watchFaultDuration, r.proxy.ReleaseWatches)
	})
}

// stableWrites returns the writes of the controller once there have been no more for a second.
func (r *scenarioRun) stableWrites(t *testing.T) []string {
	t.Helper()
	return waitUntilStable(t, time.Second, func() []string { return writesIn(r.proxy.Requests()) })
}

// writesIn returns the writes among the requests, each as "verb resource name".
func writesIn(requests []faults.Request) (writes []string) {
	for _, request := range requests {
		if slices.Contains(faults.Writes, request.Verb) {
			writes = append(writes, fmt.Sprintf("%s %s %s", request.Verb, request.Resource, request.Name))
		}
	}
	return writes
}

// checkWriteCount fails the test if there were more than twice as many writes, plus two, as in the run without faults. allowance holds
// the writes that the test causes in addition.
func checkWriteCount(t *testing.T, writes, baseline []string, allowance ...string) {
	t.Helper()
	if limit := 2*(len(baseline)+len(allowance)) + 2; len(writes) > limit {
		t.Errorf("got %d writes, want at most %d: %q", len(writes), limit, writes)
	}
}
