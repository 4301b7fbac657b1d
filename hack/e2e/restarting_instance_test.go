// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/sample-controller/hack/cluster/faults"
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
