// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// The states of an instance.
const (
	running = "running"
	frozen  = "frozen"
	exited  = "exited"
)

// electionFlags make a standby take over within seconds.
var electionFlags = []string{"-leader-elect", "-leader-elect-lease-duration=6s", "-leader-elect-renew-deadline=4s", "-leader-elect-retry-period=1s"}

// instance is an instance of the controller.
type instance struct {
	name       string
	elects     bool
	connection *apiserver.Connection // of the newest process
	state      string
	leader     bool
}

// Connection returns the connection of an instance's process, or nil if it has none.
func (l *Lab) Connection(pod string) *apiserver.Connection {
	l.lock.Lock()
	defer l.lock.Unlock()
	if i := l.find(pod); i != nil {
		return i.connection
	}
	return nil
}

// find returns the instance of a name or, without a name, the leader, or nil.
func (l *Lab) find(name string) *instance {
	n := slices.IndexFunc(l.instances, func(i *instance) bool { return i.name == name || name == "" && i.leader })
	if n < 0 {
		return nil
	}
	return l.instances[n]
}

// startInstances starts a single instance, or several with leader election.
func (l *Lab) startInstances(count int) {
	for n := range count {
		i := &instance{name: string(rune('a' + n)), elects: count > 1, state: exited}
		l.change(func() { l.instances = append(l.instances, i) })
		l.start(i)
	}
}

// stopInstances kills all instances.
func (l *Lab) stopInstances() {
	for _, i := range l.instances {
		l.kill(i)
	}
	l.change(func() { l.instances = nil })
}

// start starts a process of an instance.
func (l *Lab) start(i *instance) {
	flags := append([]string{"-master=http://lab", "-v=4", "-logging-format=json"}, l.flags...)
	if i.elects {
		flags = append(flags, electionFlags...)
	}
	connection := l.cluster.Connect(i.name, &network{l, i.name})
	l.change(func() {
		i.connection, i.state, i.leader = connection, running, false
		for fault := range l.lasting {
			applyWatchFault(connection, fault)
		}
	})
	l.record(Step{Source: wire, Stop: "fault", Kind: "podStarted", Pod: i.name, What: "the process starts", Raw: "sample-controller " + strings.Join(flags, " ")})
	l.host.Start(i.name, l.variant, flags)
}

// Log traces a line of an instance's log.
func (l *Lab) Log(pod, text string) {
	parsed, ok := parseLine(text)
	l.lock.Lock()
	if i := l.find(pod); i != nil && !i.leader && messages[parsed.message].kind == "workersStarted" { // Only the leader starts them.
		i.leader = true
		defer l.changed()
	}
	l.lock.Unlock()
	l.trace(func(t *tracer) {
		if ok {
			t.traceLine(t.pod(pod), parsed)
			return
		}
		t.emit(Step{Source: logged, Stop: "fault", Kind: "log", Pod: pod, What: text})
	})
}

// Exited says that the process of an instance has ended.
func (l *Lab) Exited(pod, how string) {
	l.lock.Lock()
	i := l.find(pod)
	ended := i != nil && i.state != exited
	if ended {
		i.state, i.leader = exited, false
	}
	l.lock.Unlock()
	if !ended {
		return
	}
	i.connection.Break()
	l.changed()
	l.trace(func(t *tracer) {
		t.emit(Step{Source: wire, Stop: "fault", Kind: "podExited", Pod: pod, What: "the process has ended: " + how})
		t.reset(t.pod(pod))
	})
}

// kill kills the process of an instance.
func (l *Lab) kill(i *instance) {
	l.host.Kill(i.name)
	l.Exited(i.name, "killed")
}

// freeze stops the process of an instance, so that it does nothing until thaw. Its connections stay open.
func (l *Lab) freeze(i *instance) error {
	return l.suspend(i, running, frozen, "podFrozen", l.host.Freeze, (*tracer).freeze)
}

func (l *Lab) thaw(i *instance) error {
	return l.suspend(i, frozen, running, "podThawed", l.host.Thaw, (*tracer).thaw)
}

// suspend changes the state of an instance, and traces that.
func (l *Lab) suspend(i *instance, from, to, kind string, do func(pod string), trace func(*tracer, *pod)) error {
	if i.state != from {
		return fmt.Errorf("instance %s is not %s", i.name, from)
	}
	l.change(func() { i.state = to })
	l.trace(func(t *tracer) {
		t.emit(Step{Source: wire, Stop: "fault", Kind: kind, Pod: i.name, What: "the process is " + to + " from now on"})
		trace(t, t.pod(i.name))
	})
	do(i.name)
	return nil
}
