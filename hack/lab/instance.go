// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// The states of an instance.
const (
	running = "running"
	frozen  = "frozen"
	exited  = "exited"
)

const (
	// shutdownTimeout is how long an instance gets to shut down before it is killed.
	shutdownTimeout = 5 * time.Second
	// maxLine bounds the length of a log line.
	maxLine = 1 << 20
)

// electionFlags make a standby take over within seconds.
var electionFlags = []string{"-leader-elect", "-leader-elect-lease-duration=6s", "-leader-elect-renew-deadline=4s", "-leader-elect-retry-period=1s"}

// instance is an instance of the controller, as it ships, behind a proxy.
type instance struct {
	name       string
	proxy      *faults.Proxy
	kubeconfig string
	elects     bool

	process *os.Process   // of the newest command
	ended   chan struct{} // closed when it has exited
	state   string        // these are guarded by the lab's lock
	leader  bool
}

// newInstance starts the proxy of an instance.
func (l *lab) newInstance(name string) (*instance, error) {
	kubeconfig, err := l.cluster.KubeconfigFor(user)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	i := &instance{name: name, kubeconfig: filepath.Join(l.cluster.Dir(), "proxy-"+name+".kubeconfig"), state: exited}
	if i.proxy, err = faults.Start(config, 0); err != nil {
		return nil, err
	}
	i.proxy.DiscardRequests()
	i.proxy.SetRules(faults.Rule{Verbs: append([]string{"get"}, faults.Writes...), Resources: []string{foos, foos + "/status", deployments},
		Fault: l.injector.handle})
	i.proxy.Wrap((&observer{pod: name, merger: l.merger, gate: l.gate}).wrap)
	return i, i.proxy.WriteKubeconfig(i.kubeconfig)
}

// startInstances starts a single instance, or several with leader election.
func (l *lab) startInstances(count int) error {
	for n := range count {
		name := string(rune('a' + n))
		i, err := l.newInstance(name)
		if err != nil {
			return err
		}
		i.elects = count > 1
		if err := l.start(i); err != nil {
			i.proxy.Close()
			return err
		}
		l.change(func() { l.instances = append(l.instances, i) })
	}
	return nil
}

// stopInstances shuts all instances down, and their proxies.
func (l *lab) stopInstances() {
	l.gate.set(run, 0)
	for _, i := range l.instances {
		l.signal(i, syscall.SIGCONT)
		l.signal(i, syscall.SIGTERM)
	}
	for _, i := range l.instances {
		select {
		case <-i.ended:
		case <-time.After(shutdownTimeout):
			l.signal(i, syscall.SIGKILL)
			<-i.ended
		}
		i.proxy.Close()
	}
	l.change(func() { l.instances = nil })
}

// start starts the process of an instance.
func (l *lab) start(i *instance) error {
	args := append([]string{"-kubeconfig=" + i.kubeconfig, "-v=4", "-logging-format=json"}, l.program.flags...)
	if i.elects {
		args = append(args, electionFlags...)
	}
	// Not with the context of a request, which ends earlier.
	command := l.cluster.Command(context.Background(), l.program.path, args...)
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return err
	}
	ended := make(chan struct{})
	l.change(func() { i.process, i.ended, i.state, i.leader = command.Process, ended, running, false })
	l.record(Step{Source: wire, Stop: "fault", Kind: "podStarted", Pod: i.name, What: fmt.Sprintf("started with process ID %d", command.Process.Pid)})
	go func() {
		l.readLog(i, reader)
		l.exit(i, command)
		close(ended)
	}()
	return nil
}

// readLog traces the lines of an instance's log until it exits.
func (l *lab) readLog(i *instance, log *os.File) {
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		text := lines.Text()
		at, ok := timeOf(text)
		if !ok {
			l.record(Step{Source: logged, Stop: "fault", Kind: "log", Pod: i.name, What: text})
			continue
		}
		if strings.Contains(text, `"msg":"Starting workers"`) { // Only the leader starts them.
			l.change(func() { i.leader = true })
		}
		l.merger.record(at, func(t *tracer) {
			if parsed, ok := parseLine(text); ok {
				t.traceLine(t.pod(i.name), parsed)
			}
		})
	}
	io.Copy(io.Discard, log) // A line is too long. The instance must never wait for a reader.
}

// exit waits for the process of an instance.
func (l *lab) exit(i *instance, command *exec.Cmd) {
	command.Wait() // What matters of the error is in the ProcessState.
	l.change(func() { i.state, i.leader = exited, false })
	l.merger.record(time.Now(), func(t *tracer) {
		t.emit(Step{Source: wire, Stop: "fault", Kind: "podExited", Pod: i.name, What: "the process has ended: " + command.ProcessState.String()})
		t.reset(t.pod(i.name))
	})
}

// signal sends a signal to the process of an instance, unless that has exited.
func (l *lab) signal(i *instance, signal syscall.Signal) error {
	err := i.process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// freeze stops the process of an instance, so that it does nothing until thaw. Its connections stay open.
func (l *lab) freeze(i *instance) error {
	return l.suspend(i, running, frozen, syscall.SIGSTOP, "podFrozen", (*tracer).freeze)
}

func (l *lab) thaw(i *instance) error {
	return l.suspend(i, frozen, running, syscall.SIGCONT, "podThawed", (*tracer).thaw)
}

// suspend sends a signal that changes the state of an instance, and traces that.
func (l *lab) suspend(i *instance, from, to string, signal syscall.Signal, kind string, trace func(*tracer, *pod)) error {
	changed := false
	l.change(func() {
		if changed = i.state == from; changed {
			i.state = to
		}
	})
	if !changed {
		return fmt.Errorf("%w: instance %s is not %s", errInvalid, i.name, from)
	}
	l.merger.record(time.Now(), func(t *tracer) {
		t.emit(Step{Source: wire, Stop: "fault", Kind: kind, Pod: i.name, What: "the process is " + to + " from now on"})
		trace(t, t.pod(i.name))
	})
	return l.signal(i, signal)
}

// kill kills the process of an instance, and returns when it has ended.
func (l *lab) kill(i *instance) error {
	err := l.signal(i, syscall.SIGKILL)
	<-i.ended
	return err
}
