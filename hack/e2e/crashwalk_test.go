// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// strike is what happens at a write request of the program.
type strike string

const (
	killedBefore strike = "killed before it"
	killedAfter  strike = "killed after it"
	answerLost   strike = "the answer is lost"
)

// TestTheProgramMayBeStruckAtAnyWrite repeats each scenario once for each of its writes and each strike: wherever the program is
// killed, and whichever answer it does not get, the same state is reached, with hardly more writes, and then held.
func TestTheProgramMayBeStruckAtAnyWrite(t *testing.T) {
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			faultless := walk(t, scenario, 0, "")
			t.Logf("without faults: %q", faultless)
			for n := range faultless {
				for _, strike := range []strike{killedBefore, killedAfter, answerLost} {
					t.Run(fmt.Sprintf("%d %s %s", n+1, faultless[n], strike), func(t *testing.T) {
						t.Parallel()
						writes := walk(t, scenario, n+1, strike)
						// The write that was struck, and what follows from it, may be done once more.
						if most := 2*len(faultless) + 2; len(writes) > most {
							t.Errorf("%d writes %q, want at most %d", len(writes), writes, most)
						}
					})
				}
			}
		})
	}
}

// walk plays a scenario and strikes the n-th write from the act on, if n is not 0. It returns the writes that the API server got.
func walk(t *testing.T, s scenario, n int, strike strike) []string {
	t.Helper()
	namespace := newNamespace(t)
	proxy := startFaultProxy(t)
	proxy.startController(t, namespace)
	s.prepare(t, namespace)
	before := len(settledWritesOf(t, namespace))
	proxy.strikeAt(n, strike)
	s.act(t, namespace)
	s.settled(t, namespace)
	writes := settledWritesOf(t, namespace)[before:]
	if n > 0 && !proxy.struck() {
		t.Logf("there were fewer than %d writes this time", n)
	}
	s.settled(t, namespace)
	return writes
}

// settledWritesOf returns the writes in a namespace once there have been no more for a second.
func settledWritesOf(t *testing.T, namespace string) []string {
	t.Helper()
	return slices.DeleteFunc(settledRequestsOf(t, namespace), func(request string) bool {
		return strings.HasPrefix(request, "get ") || strings.HasPrefix(request, "list ")
	})
}

// faultProxy stands between the program and the API server. Requests and watches pass through it; one of the writes does not.
type faultProxy struct {
	url   string
	start func() *process

	lock    sync.Mutex
	program *process
	left    int // Writes until the strike, which is at 1; 0 is never.
	strike  strike
	hit     bool
}

func startFaultProxy(t *testing.T) *faultProxy {
	t.Helper()
	reverse := newProxy(t)
	reverse.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p := &faultProxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p.next(r.Method) {
		case killedBefore:
			p.restart()
			panic(http.ErrAbortHandler)
		case killedAfter:
			reverse.ServeHTTP(httptest.NewRecorder(), r.WithContext(t.Context()))
			p.restart()
			panic(http.ErrAbortHandler)
		case answerLost:
			reverse.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		reverse.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.url = server.URL
	return p
}

// startController starts a program that reaches the API server through the proxy, and that is started again when it is struck.
func (p *faultProxy) startController(t *testing.T, namespace string) {
	t.Helper()
	p.start = func() *process { return startProgram(t, "-master", p.url, "-namespace", namespace, "-v=4") }
	p.program = p.start()
	p.program.waitForLog("Started workers")
}

func (p *faultProxy) restart() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.program.command.Process.Signal(syscall.SIGKILL)
	<-p.program.exited
	p.program = p.start()
}

func (p *faultProxy) strikeAt(n int, strike strike) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.left, p.strike = n, strike
}

func (p *faultProxy) struck() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.hit
}

// next returns what is to happen to a request.
func (p *faultProxy) next(method string) strike {
	p.lock.Lock()
	defer p.lock.Unlock()
	if method == http.MethodGet || p.left == 0 {
		return ""
	}
	p.left--
	if p.left > 0 {
		return ""
	}
	p.hit = true
	return p.strike
}
