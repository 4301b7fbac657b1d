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

// restarted is an instance of the program that is started again whenever it ends, as a kubelet does it.
type restarted struct {
	t     *testing.T
	proxy *faults.Proxy
	start func() *process

	lock     sync.Mutex
	runs     []*process
	told     map[*process]syscall.Signal // what ended those that were told to
	stopping chan struct{}
	stopped  chan struct{}
}

// restartDelay is how long an instance is away between two runs.
const restartDelay = time.Second

// startRestarted starts one of the instances that elect one of them by a Lease in a namespace, and serve all namespaces.
func startRestarted(t *testing.T, namespace string, number int, seed uint64) *restarted {
	t.Helper()
	in := &restarted{
		t: t, proxy: startProxy(t, fmt.Sprintf("%s-%d", stricken, number), seed+uint64(number)),
		told: map[*process]syscall.Signal{}, stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	in.start = func() *process {
		return startBehind(t, in.proxy, append(electionFlags(namespace), "-resync-period", resyncPeriod.String())...)
	}
	in.runs = []*process{in.start()}
	go in.keepRunning()
	t.Cleanup(func() { <-in.stopped }) // So that nothing is started once the test is over.
	return in
}

func (in *restarted) current() *process {
	in.lock.Lock()
	defer in.lock.Unlock()
	return in.runs[len(in.runs)-1]
}

func (in *restarted) keepRunning() {
	defer close(in.stopped)
	for {
		select {
		case <-in.current().exited:
		case <-in.t.Context().Done(): // It is killed by its own clean-up, which comes later.
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

// tell sends the newest run a signal that ends it. One that was told to end, and takes its time, is not told so again: the second
// time it would exit at once, with 1.
func (in *restarted) tell(signal syscall.Signal) {
	in.lock.Lock()
	defer in.lock.Unlock()
	run := in.runs[len(in.runs)-1]
	if signal == syscall.SIGTERM && in.told[run] == syscall.SIGTERM {
		return
	}
	if run.command.Process.Signal(signal) == nil { // Otherwise it has ended just now.
		in.told[run] = signal
	}
}

// stop ends the instance and judges all that it was: how each run ended, and what it said.
func (in *restarted) stop() {
	in.t.Helper()
	close(in.stopping)
	in.tell(syscall.SIGTERM)
	select {
	case <-in.stopped:
	case <-time.After(20 * time.Second):
		in.t.Error("the program still runs 20 s after it was told to end")
		return
	}
	for i, run := range in.runs {
		last := i == len(in.runs)-1
		code := run.command.ProcessState.ExitCode()
		mayFail := !last && (strings.Contains(run.lastLine(), "the leader lease was lost") || strings.Contains(run.lastLine(), "cannot be reached"))
		switch {
		case in.told[run] == syscall.SIGKILL:
		case in.told[run] == syscall.SIGTERM && code == 0:
		case code == 1 && mayFail:
		default:
			in.t.Errorf("the program, told to end by %d, exited with %d and said last: %s", in.told[run], code, run.lastLine())
		}
		wantHealthy(in.t, run.log.String())
	}
}

// mishaps befall the instances and the cluster, one after the other, until they are stopped, while a share of all requests fails.
type mishaps struct {
	t         *testing.T
	random    *rand.Rand
	instances []*restarted
	counts    map[string]int
	enough    chan struct{}
	done      chan struct{}
	// end returns once the last mishap is over.
	end func()
}

// shareOfFaults is the share of requests and watches that fail during a random walk.
const shareOfFaults = 0.1

var allMishaps = []struct {
	name   string
	befall func(m *mishaps, in *restarted)
}{
	{"program killed", func(_ *mishaps, in *restarted) { in.tell(syscall.SIGKILL) }},
	{"program told to end", func(_ *mishaps, in *restarted) { in.tell(syscall.SIGTERM) }},
	{"program frozen", func(m *mishaps, in *restarted) {
		run := in.current().command.Process
		run.Signal(syscall.SIGSTOP) // Both fail only if it has ended.
		m.wait(2 * leaseDuration)
		run.Signal(syscall.SIGCONT)
	}},
	{"program cut off", func(m *mishaps, in *restarted) {
		in.proxy.SetRules(faults.Rule{Name: "request while cut off", Fault: faults.Drop})
		in.proxy.CutConnections()
		m.wait(2 * leaseDuration)
		in.proxy.SetRules(randomFaults(shareOfFaults)...)
	}},
	{"connections cut", func(_ *mishaps, in *restarted) { in.proxy.CutConnections() }},
	{"watches stand still", func(m *mishaps, in *restarted) {
		in.proxy.Freeze(m.someView()...)
		m.wait(stillness)
		in.proxy.Thaw()
	}},
	{"watches cut", func(m *mishaps, in *restarted) {
		in.proxy.CutWatches(m.someView()...)
		m.wait(stillness)
		in.proxy.MendWatches(m.random.IntN(2) == 0)
	}},
	{"API server killed", func(m *mishaps, _ *restarted) { m.outage(kill(cluster.APIServer), restart(cluster.APIServer)) }},
	{"API server frozen", func(m *mishaps, _ *restarted) { m.outage(freeze(cluster.APIServer), resume(cluster.APIServer)) }},
	{"etcd killed", func(m *mishaps, _ *restarted) { m.outage(kill(cluster.Etcd), restart(cluster.Etcd)) }},
	{"etcd frozen", func(m *mishaps, _ *restarted) { m.outage(freeze(cluster.Etcd), resume(cluster.Etcd)) }},
	{"controller manager killed", func(m *mishaps, _ *restarted) {
		m.outage(kill(cluster.ControllerManager), restart(cluster.ControllerManager))
		waitForControllerManager(m.t) // If the API server is struck before, it gives up.
	}},
	{"permissions taken away", func(m *mishaps, _ *restarted) { m.outage(takePermissions, givePermissions) }},
}

// startMishaps has mishaps befall instances from now on.
func startMishaps(t *testing.T, instances []*restarted, seed uint64) *mishaps {
	m := &mishaps{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), instances: instances, counts: map[string]int{},
		enough: make(chan struct{}), done: make(chan struct{}),
	}
	m.end = sync.OnceFunc(func() {
		close(m.enough)
		<-m.done
	})
	for _, in := range instances {
		in.proxy.SetRules(randomFaults(shareOfFaults)...)
	}
	go m.run()
	t.Cleanup(m.end) // A test that fails does not stop them, and the tests that follow need what they broke.
	return m
}

func (m *mishaps) run() {
	defer close(m.done)
	for {
		select {
		case <-m.enough:
			return
		case <-m.t.Context().Done():
			return
		case <-time.After(someTime(m.random, 2*time.Second)):
		}
		mishap := allMishaps[m.random.IntN(len(allMishaps))]
		note(m.t, mishap.name)
		m.counts[mishap.name]++
		mishap.befall(m, m.instances[m.random.IntN(len(m.instances))])
	}
}

// stop returns once the last mishap is over, and no request fails any more. It returns how often each fault struck.
func (m *mishaps) stop() map[string]int {
	m.t.Helper()
	m.end()
	for _, in := range m.instances {
		in.proxy.SetRules()
		m.counts = sum(m.counts, in.proxy.Injected())
	}
	return m.counts
}

func (m *mishaps) someView() []string { return views[m.random.IntN(len(views))] }

func (m *mishaps) outage(begin, end func(t *testing.T)) {
	begin(m.t)
	m.wait(someTime(m.random, outageTime))
	end(m.t)
}

// wait returns after a time, or at the end of the test.
func (m *mishaps) wait(duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-m.t.Context().Done():
	}
}

// note logs what happens, and when, for whoever has to find out why a walk failed.
func note(t *testing.T, what string) { t.Logf("%s %s", time.Now().Format("15:04:05.000"), what) }

// someTime returns a random time below a limit.
func someTime(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}
