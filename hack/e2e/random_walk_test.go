// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
	"k8s.io/sample-controller/hack/simulation/foos"
)

var (
	soakTime = flag.Duration("soak", 0, "start random walks for this time; at least one")
	soakSeed = flag.Uint64("seed", 1, "seed of the first random walk; 0 is a random one")
)

const (
	walkSteps        = 120
	walkResyncPeriod = 5 * time.Second
	// eventRetryDelay bounds the time until an event is sent again after an error.
	eventRetryDelay = 10 * time.Second
	// relistDelay is how long after several outages a Reflector lists at the latest: it waits for up to 30 s, and with jitter twice as long.
	relistDelay = 60 * time.Second
)

// TestRandomWalks performs random user actions while two instances run, one in ten requests fails, and instances and components fail. Not
// parallel: the outages affect the whole cluster.
func TestRandomWalks(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64N(1e6) + 1
	}
	for end := time.Now().Add(*soakTime); ; seed++ {
		if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { randomWalk(t, seed) }) {
			t.Logf("repeat this walk with: make soak CLUSTER=local SOAK=0 SEED=%d", seed)
		}
		if time.Now().After(end) {
			return
		}
	}
}

func randomWalk(t *testing.T, seed uint64) {
	namespace := newNamespace(t)
	// The deletion of a namespace may leave Foos behind for ever, if the API server, which was restarted, does not list their resource yet.
	t.Cleanup(func() { kubectl(t, "delete", "-n", namespace, "foos", "--all", "--timeout=60s") })
	var instances []*instance
	for i := range uint64(2) {
		in := startCandidate(t, fmt.Sprintf("%s-%d", outageUser, i), namespace, seed+i, "-resync-period", walkResyncPeriod.String())
		instances = append(instances, in)
	}
	stopFaults := injectFaults(t, instances, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for steps := 0; steps < walkSteps; {
		if act(t, random, namespace) {
			steps++
		}
		wait(t, time.After(time.Duration(random.Int64N(int64(400*time.Millisecond)))))
	}
	stopFaults()
	// If a Foo was recreated while the watch of the garbage collector was interrupted, the collector takes the new Foo for the old one, and
	// keeps the old Deployment until it is restarted.
	restartDependents(t)
	eventually(t, convergence+relistDelay, func() error {
		restartExited(instances)
		return checkConverged(t, namespace)
	})
	checkNoRequests(t, instances)
	requireNoError(t, checkConverged(t, namespace))
	for _, in := range instances {
		shutDown(in)
	}
}

// restartExited starts instances whose process has exited again, like the kubelet.
func restartExited(instances []*instance) {
	for _, in := range instances {
		select {
		case <-in.exited:
			in.restart()
		default:
		}
	}
}

// shutDown shuts an instance down, and checks the exit code and the log of each process.
func shutDown(in *instance) {
	in.t.Helper()
	select {
	case <-in.exited: // It has lost the Lease since the last fault.
		in.ended = append(in.ended, in.process)
	default:
		in.stop()
	}
	for _, process := range in.ended {
		code, line := process.command.ProcessState.ExitCode(), process.errorLine()
		if code != -1 && !(code == 1 && (strings.Contains(line, "leader election lost") || strings.Contains(line, "cannot be reached"))) {
			in.t.Errorf("the controller exited with code %d; last line: %s", code, line)
		}
	}
}

// walkFaults are the faults of an instance, of its connections, or of a component of the cluster. Each takes a while.
var walkFaults = []struct {
	name   string
	inject func(t *testing.T, in *instance)
}{
	{"controller killed", func(_ *testing.T, in *instance) { in.command.Process.Kill() }},
	{"controller frozen", func(t *testing.T, in *instance) {
		in.command.Process.Signal(syscall.SIGSTOP) // Both fail only if the process has exited.
		wait(t, time.After(2*leaseDuration))
		in.command.Process.Signal(syscall.SIGCONT)
	}},
	{"controller cut off", func(t *testing.T, in *instance) {
		in.proxy.SetRules(faults.Rule{Fault: faults.DropRequest})
		in.proxy.CloseConnections()
		wait(t, time.After(2*leaseDuration))
		in.proxy.SetRules(requestFaults...)
	}},
	{"API server killed", componentFault(kill(cluster.APIServer), restart(cluster.APIServer))},
	{"API server frozen", componentFault(freeze(cluster.APIServer), resume(cluster.APIServer))},
	{"etcd killed", componentFault(kill(cluster.Etcd), restart(cluster.Etcd))},
	{"etcd frozen", componentFault(freeze(cluster.Etcd), resume(cluster.Etcd))},
	{"controller manager killed", componentFault(kill(cluster.ControllerManager), func(t *testing.T) {
		restart(cluster.ControllerManager)(t)
		waitForControllerManager(t) // It exits if the API server is not available at startup.
	})},
}

func componentFault(begin, end func(t *testing.T)) func(*testing.T, *instance) {
	return func(t *testing.T, _ *instance) {
		begin(t)
		wait(t, time.After(outageDuration))
		end(t)
	}
}

// requestFaults make one in ten requests fail.
var requestFaults = []faults.Rule{
	{Verbs: faults.Writes, Probability: 0.02, Fault: faults.Reject(http.StatusConflict, metav1.StatusReasonConflict)},
	{Probability: 0.02, Fault: faults.Reject(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
	{Probability: 0.02, Fault: faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
	{Probability: 0.02, Fault: faults.DropRequest},
	{Verbs: faults.Writes, Probability: 0.02, Fault: faults.DropResponse},
}

// injectFaults injects faults, one after the other, until the function that it returns is called.
func injectFaults(t *testing.T, instances []*instance, seed uint64) (stop func()) {
	for _, in := range instances {
		in.proxy.SetRules(requestFaults...)
	}
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		random := rand.New(rand.NewPCG(seed, 2))
		for {
			select {
			case <-stopping:
				return
			case <-time.After(time.Duration(random.Int64N(int64(time.Second)))):
			}
			fault := walkFaults[random.IntN(len(walkFaults))]
			logStep(t, fault.name)
			fault.inject(t, instances[random.IntN(len(instances))])
			restartExited(instances)
		}
	}()
	stop = sync.OnceFunc(func() {
		close(stopping)
		<-stopped
		for _, in := range instances {
			in.proxy.SetRules()
		}
	})
	t.Cleanup(stop) // The tests that follow need a working cluster, even if this test fails.
	return stop
}

// logStep logs a step of a random walk with its time, for the analysis of failures.
func logStep(t *testing.T, step string) { t.Logf("%s %s", time.Now().Format("15:04:05.000"), step) }

// act performs a random user action, and reports whether the API server has responded.
func act(t *testing.T, random *rand.Rand, namespace string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	users := foos.Users{
		FooClient: sampleClient.SamplecontrollerV1alpha1().Foos(namespace), DeploymentClient: kubeClient.AppsV1().Deployments(namespace),
	}
	action, target := foos.Actions[random.IntN(len(foos.Actions))], foos.NewTarget(random)
	err := action.Do(ctx, users, target)
	logStep(t, fmt.Sprintf("%s, %s: %v", action.Name, target, err))
	return err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
}

// checkConverged returns an error unless all Foos are Ready or report a name conflict, and no other Foo controls a Deployment.
func checkConverged(t *testing.T, namespace string) error {
	allFoos, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	deployments, err := kubeClient.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if _, differs := foos.JudgeState(allFoos.Items, deployments.Items); differs != "" {
		return errors.New(differs)
	}
	return nil
}

// checkNoRequests fails the test if the controllers make requests in two resync periods of a steady state, other than for the Lease.
func checkNoRequests(t *testing.T, instances []*instance) {
	t.Helper()
	requests := func() []faults.Request { return requestsOf(instances) }
	waitUntilStable(t, eventRetryDelay, requests)
	since := time.Now()
	wait(t, time.After(2*walkResyncPeriod+time.Second))
	for _, request := range requests() {
		if request.Sent.After(since) {
			t.Errorf("unnecessary request in steady state: %+v", request)
		}
	}
}

// requestsOf returns the requests of all instances other than for the Lease.
func requestsOf(instances []*instance) (requests []faults.Request) {
	for _, in := range instances {
		requests = append(requests, withoutLeases(in.proxy.Requests())...)
	}
	return requests
}
