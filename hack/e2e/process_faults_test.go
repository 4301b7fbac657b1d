// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/e2e/faults"
)

// restartingInstance is a controller that is started again when it exits, like a container by the kubelet.
type restartingInstance struct {
	t     *testing.T
	proxy *faults.Proxy
	start func() *process

	lock     sync.Mutex
	runs     []*process
	signaled map[*process]syscall.Signal // the terminating signal, if any
	stopping chan struct{}
	stopped  chan struct{}
}

// restartDelay is the time between the exit of a run and the next start.
const restartDelay = time.Second

// startRestartingInstance starts an instance for all namespaces whose Lease is in namespace.
func startRestartingInstance(t *testing.T, namespace string, number int, seed uint64) *restartingInstance {
	t.Helper()
	in := &restartingInstance{
		t: t, proxy: startProxy(t, fmt.Sprintf("%s-%d", outageUser, number), seed+uint64(number)),
		signaled: map[*process]syscall.Signal{}, stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	in.start = func() *process {
		return startBehindProxy(t, in.proxy, append(electionFlags(namespace), "-resync-period", resyncPeriod.String())...)
	}
	in.runs = []*process{in.start()}
	go in.restartOnExit()
	t.Cleanup(func() { <-in.stopped }) // so that no process is started after the test
	return in
}

func (in *restartingInstance) current() *process {
	in.lock.Lock()
	defer in.lock.Unlock()
	return in.runs[len(in.runs)-1]
}

func (in *restartingInstance) restartOnExit() {
	defer close(in.stopped)
	for {
		select {
		case <-in.current().exited:
		case <-in.t.Context().Done(): // The process is killed by its own cleanup function, which runs later.
			return
		}
		select {
		case <-in.stopping:
			return
		case <-in.t.Context().Done():
			return
		case <-time.After(restartDelay):
		}
		run := in.start()
		in.lock.Lock()
		in.runs = append(in.runs, run)
		in.lock.Unlock()
	}
}

// terminate sends SIGTERM or SIGKILL to the current run. A second SIGTERM is not sent, because it would not be a graceful shutdown.
func (in *restartingInstance) terminate(signal syscall.Signal) {
	in.lock.Lock()
	defer in.lock.Unlock()
	run := in.runs[len(in.runs)-1]
	if signal == syscall.SIGTERM && in.signaled[run] == syscall.SIGTERM {
		return
	}
	if run.command.Process.Signal(signal) == nil { // Otherwise it has just exited.
		in.signaled[run] = signal
	}
}

// stop shuts the instance down and checks the exit code and the log of each run.
func (in *restartingInstance) stop() {
	in.t.Helper()
	close(in.stopping)
	in.terminate(syscall.SIGTERM)
	select {
	case <-in.stopped:
	case <-time.After(20 * time.Second):
		in.t.Error("the controller is still running 20 s after SIGTERM")
		return
	}
	for i, run := range in.runs {
		last := i == len(in.runs)-1
		code := run.command.ProcessState.ExitCode()
		mayFail := !last && (strings.Contains(run.errorLine(), "leader election lost") || strings.Contains(run.errorLine(), "cannot be reached"))
		switch {
		case in.signaled[run] == syscall.SIGKILL:
		case in.signaled[run] == syscall.SIGTERM && code == 0:
		case code == 1 && mayFail:
		default:
			in.t.Errorf("the controller exited with code %d after signal %d; last line: %s", code, in.signaled[run], run.errorLine())
		}
		checkLog(in.t, run.log.String())
	}
}

// faultInjector injects random faults into the instances and the cluster, one after the other, while requests fail at random.
type faultInjector struct {
	t         *testing.T
	random    *rand.Rand
	instances []*restartingInstance
	counts    map[string]int
	stopping  chan struct{}
	stopped   chan struct{}
	// wait ends the injection once the current fault is over.
	wait func()
}

// requestFaultProbability is the probability that a request or watch fails during a random walk.
const requestFaultProbability = 0.1

var processFaults = []struct {
	name   string
	inject func(f *faultInjector, in *restartingInstance)
}{
	{"controller killed", func(_ *faultInjector, in *restartingInstance) { in.terminate(syscall.SIGKILL) }},
	{"controller terminated", func(_ *faultInjector, in *restartingInstance) { in.terminate(syscall.SIGTERM) }},
	{"controller frozen", func(f *faultInjector, in *restartingInstance) {
		run := in.current().command.Process
		run.Signal(syscall.SIGSTOP) // Both signals fail only if the process has exited.
		sleep(f.t, 2*leaseDuration)
		run.Signal(syscall.SIGCONT)
	}},
	{"controller partitioned", func(f *faultInjector, in *restartingInstance) {
		in.proxy.SetRules(faults.Rule{Name: "request while partitioned", Fault: faults.DropRequest})
		in.proxy.CloseConnections()
		sleep(f.t, 2*leaseDuration)
		in.proxy.SetRules(randomFaults(requestFaultProbability)...)
	}},
	{"connections closed", func(_ *faultInjector, in *restartingInstance) { in.proxy.CloseConnections() }},
	{"watches held", func(f *faultInjector, in *restartingInstance) {
		in.proxy.HoldWatches(f.randomResources()...)
		sleep(f.t, watchFaultDuration)
		in.proxy.ReleaseWatches()
	}},
	{"watches interrupted", func(f *faultInjector, in *restartingInstance) {
		in.proxy.InterruptWatches(f.randomResources()...)
		sleep(f.t, watchFaultDuration)
		in.proxy.ResumeWatches(f.random.IntN(2) == 0)
	}},
	{"API server killed", func(f *faultInjector, _ *restartingInstance) {
		f.outage(kill(cluster.APIServer), restart(cluster.APIServer))
	}},
	{"API server frozen", func(f *faultInjector, _ *restartingInstance) {
		f.outage(freeze(cluster.APIServer), resume(cluster.APIServer))
	}},
	{"etcd killed", func(f *faultInjector, _ *restartingInstance) { f.outage(kill(cluster.Etcd), restart(cluster.Etcd)) }},
	{"etcd frozen", func(f *faultInjector, _ *restartingInstance) { f.outage(freeze(cluster.Etcd), resume(cluster.Etcd)) }},
	{"controller manager killed", func(f *faultInjector, _ *restartingInstance) {
		f.outage(kill(cluster.ControllerManager), restart(cluster.ControllerManager))
		waitForControllerManager(f.t) // It exits if the API server is not available at startup.
	}},
	{"permissions revoked", func(f *faultInjector, _ *restartingInstance) { f.outage(revokePermissions, restorePermissions) }},
}

func startFaultInjector(t *testing.T, instances []*restartingInstance, seed uint64) *faultInjector {
	f := &faultInjector{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), instances: instances, counts: map[string]int{},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.wait = sync.OnceFunc(func() {
		close(f.stopping)
		<-f.stopped
	})
	for _, in := range instances {
		in.proxy.SetRules(randomFaults(requestFaultProbability)...)
	}
	go f.run()
	t.Cleanup(f.wait) // The tests that follow need a working cluster, even if this test fails.
	return f
}

func (f *faultInjector) run() {
	defer close(f.stopped)
	for {
		select {
		case <-f.stopping:
			return
		case <-f.t.Context().Done():
			return
		case <-time.After(randomDuration(f.random, 2*time.Second)):
		}
		fault := processFaults[f.random.IntN(len(processFaults))]
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
