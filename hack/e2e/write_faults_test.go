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

	"k8s.io/sample-controller/hack/e2e/faults"
)

// scenario is a sequence of a user's acts that the program has to follow. It ends when the program has.
type scenario struct {
	name string
	// prepare brings about the state from which act starts. The program runs, without faults, and has followed when it returns.
	prepare func(t *testing.T, namespace string)
	act     func(t *testing.T, namespace string)
	// settled returns once the desired state is reached.
	settled func(t *testing.T, namespace string)
}

var scenarios = []scenario{
	{
		name:    "create",
		prepare: func(*testing.T, string) {},
		act:     func(t *testing.T, namespace string) { createFoo(t, namespace, "foo", "first", 2) },
		settled: func(t *testing.T, namespace string) {
			wantReplicas(t, namespace, "foo", 2)
			wantOnlyDeployments(t, namespace, "first")
		},
	},
	{
		name: "scale",
		prepare: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			wantReplicas(t, namespace, "foo", 1)
		},
		act: func(t *testing.T, namespace string) { kubectl(t, "scale", "-n", namespace, "foo/foo", "--replicas=3") },
		settled: func(t *testing.T, namespace string) {
			wantReplicas(t, namespace, "foo", 3)
			wantOnlyDeployments(t, namespace, "first")
		},
	},
	{
		name: "rename",
		prepare: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			wantReplicas(t, namespace, "foo", 1)
		},
		act: func(t *testing.T, namespace string) { rename(t, namespace, "foo", "second") },
		settled: func(t *testing.T, namespace string) {
			wantReplicas(t, namespace, "foo", 1)
			wantOnlyDeployments(t, namespace, "second")
		},
	},
	{
		name: "conflict and hand-over",
		prepare: func(t *testing.T, namespace string) {
			kubectl(t, "create", "deployment", "-n", namespace, "first", "--image=other")
		},
		act: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			wantReason(t, namespace, "foo", "ErrResourceExists")
			kubectl(t, "delete", "-n", namespace, "deployment/first")
		},
		settled: func(t *testing.T, namespace string) {
			wantReplicas(t, namespace, "foo", 1)
			wantOnlyDeployments(t, namespace, "first")
		},
	},
	{
		name: "delete and recreate",
		prepare: func(t *testing.T, namespace string) {
			createFoo(t, namespace, "foo", "first", 1)
			wantReplicas(t, namespace, "foo", 1)
		},
		act: func(t *testing.T, namespace string) {
			kubectl(t, "delete", "-n", namespace, "foo/foo", "--wait=false")
			createFoo(t, namespace, "foo", "first", 2)
		},
		settled: func(t *testing.T, namespace string) {
			wantReplicasWithin(t, 2*convergence, namespace, "foo", 2)
			wantOnlyDeployments(t, namespace, "first")
			if foo := getFoo(t, namespace, "foo"); !metav1.IsControlledBy(getDeployment(t, namespace, "first"), foo) {
				t.Error("the Deployment is not the new Foo's")
			}
		},
	},
}

// stillness is how long watches stand still in these tests.
const stillness = 2 * time.Second

// strikes are what can happen at a write request of the program.
var strikes = []struct {
	name  string
	fault func(w *walk) faults.Fault
}{
	{"killed before it", func(w *walk) faults.Fault { return faults.Before(w.restart) }},
	{"killed after it", func(w *walk) faults.Fault { return faults.After(w.restart) }},
	{"the answer is lost", func(*walk) faults.Fault { return faults.LoseAnswer }},
	{"the connection is cut", func(w *walk) faults.Fault { return faults.Before(w.proxy.CutConnections) }},
	{"refused with 409", func(*walk) faults.Fault { return faults.Refuse(http.StatusConflict, metav1.StatusReasonConflict) }},
	{"refused with 429", func(*walk) faults.Fault {
		return faults.Refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	}},
	{"refused with 500", func(*walk) faults.Fault {
		return faults.Refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}},
	{"refused with 503", func(*walk) faults.Fault {
		return faults.Refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}},
	{"applied, but answered with 504", func(*walk) faults.Fault {
		return faults.Misreport(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	}},
	{"watches of Foos stand still from it on", func(w *walk) faults.Fault { return w.standStill("foos") }},
	{"watches of Deployments stand still from it on", func(w *walk) faults.Fault { return w.standStill("deployments") }},
	{"all watches stand still from it on", func(w *walk) faults.Fault { return w.standStill("foos", "deployments") }},
}

// TestTheProgramMayBeStruckAtAnyWrite repeats each scenario once for each of its writes and each strike: wherever the program is
// struck, the same state is reached, with hardly more writes, and then held.
func TestTheProgramMayBeStruckAtAnyWrite(t *testing.T) {
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			faultless := startWalk(t, scenario).play(t)
			t.Logf("without faults: %q", faultless)
			for n := range faultless {
				for _, strike := range strikes {
					t.Run(fmt.Sprintf("%d %s %s", n+1, faultless[n], strike.name), func(t *testing.T) {
						t.Parallel()
						w := startWalk(t, scenario)
						w.proxy.SetRules(faults.Rule{Name: strike.name, Verbs: faults.Writes, Nth: n + 1, Fault: strike.fault(w)})
						wantFewWrites(t, w.play(t), faultless)
						if len(w.proxy.Injected()) == 0 {
							t.Logf("there were fewer than %d writes this time", n+1)
						}
					})
				}
			}
		})
	}
}

// TestARandomShareOfAllRequestsMayFail plays each scenario while one in five requests and watches fails.
func TestARandomShareOfAllRequestsMayFail(t *testing.T) {
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			faultless := startWalk(t, scenario).play(t)
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					t.Parallel()
					w := startWalkWithSeed(t, scenario, seed)
					w.proxy.SetRules(randomFaults(0.2)...)
					wantFewWrites(t, w.play(t), faultless)
				})
			}
		})
	}
}

// randomFaults are rules by which about the given share of all requests fails, half of them in ways that only reach some.
func randomFaults(share float64) []faults.Rule {
	each := share / 8
	return []faults.Rule{
		{Name: "409", Verbs: faults.Writes, Share: each, Fault: faults.Refuse(http.StatusConflict, metav1.StatusReasonConflict)},
		{Name: "410", Verbs: []string{"watch"}, Share: each, Fault: faults.Refuse(http.StatusGone, metav1.StatusReasonExpired)},
		{Name: "429", Share: each, Fault: faults.Refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
		{Name: "500", Share: each, Fault: faults.Refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{Name: "503", Share: each, Fault: faults.Refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		{Name: "504 though applied", Verbs: faults.Writes, Share: each, Fault: faults.Misreport(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)},
		{Name: "request dropped", Share: each, Fault: faults.Drop},
		{Name: "answer lost", Verbs: faults.Writes, Share: each, Fault: faults.LoseAnswer},
	}
}

// walk is a scenario that is played with a program behind a proxy.
type walk struct {
	scenario  scenario
	namespace string
	proxy     *faults.Proxy
	start     func() *process

	lock    sync.Mutex
	program *process
}

func startWalk(t *testing.T, s scenario) *walk {
	t.Helper()
	return startWalkWithSeed(t, s, 0)
}

// startWalkWithSeed starts a program for a scenario and prepares it.
func startWalkWithSeed(t *testing.T, s scenario, seed uint64) *walk {
	t.Helper()
	w := &walk{scenario: s, namespace: newNamespace(t), proxy: startProxy(t, user, seed)}
	w.start = func() *process { return startBehind(t, w.proxy, "-namespace", w.namespace) }
	w.program = w.start()
	w.program.waitForLog("Started workers")
	s.prepare(t, w.namespace)
	w.settledWrites(t)
	return w
}

// play plays the scenario to its end, and returns the writes from the act on that the API server got.
func (w *walk) play(t *testing.T) []string {
	t.Helper()
	history := watchHistory(t, w.namespace)
	w.proxy.Forget()
	w.scenario.act(t, w.namespace)
	w.scenario.settled(t, w.namespace)
	writes := w.settledWrites(t)
	w.scenario.settled(t, w.namespace)
	history.judge(w.proxy.Requests())
	wantHealthy(t, w.program.log.String())
	return writes
}

// restart kills the program and starts it again.
func (w *walk) restart() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.program.command.Process.Signal(syscall.SIGKILL)
	<-w.program.exited
	w.program = w.start()
}

// standStill passes the request on, and has the watches stand still for a while.
func (w *walk) standStill(resources ...string) faults.Fault {
	return faults.During(func() {
		w.proxy.Freeze(resources...)
		time.AfterFunc(stillness, w.proxy.Thaw)
	})
}

// settledWrites returns the writes that the API server got, each as "verb resource name", once there have been no more for a
// second.
func (w *walk) settledWrites(t *testing.T) (writes []string) {
	t.Helper()
	changed := time.Now()
	eventually(t, convergence, func() error {
		now := writesAmong(w.proxy.Requests())
		if len(now) != len(writes) {
			writes, changed = now, time.Now()
		}
		if since := time.Since(changed); since < time.Second {
			return fmt.Errorf("the newest of %d writes was made %s ago", len(writes), since)
		}
		return nil
	})
	return writes
}

func writesAmong(requests []faults.Request) (writes []string) {
	for _, request := range requests {
		if slices.Contains(faults.Writes, request.Verb) {
			writes = append(writes, fmt.Sprintf("%s %s %s", request.Verb, request.Resource, request.Name))
		}
	}
	return writes
}

// wantFewWrites checks that a walk with faults took at most twice the writes of the same walk without, and a few, besides those
// that were made to look how it is.
func wantFewWrites(t *testing.T, writes, faultless []string, looking ...string) {
	t.Helper()
	if most := 2*(len(faultless)+len(looking)) + 2; len(writes) > most {
		t.Errorf("%d writes %q, want at most %d", len(writes), writes, most)
	}
}
