// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordTo makes TestLab write its steps to a file.
var recordTo = flag.String("record", "", "`file` to write the steps of TestLab to, as a recording")

// liveLab is a lab with a cluster.
type liveLab struct {
	*testing.T
	lab     *lab
	handler http.Handler
	seen    int64 // the step until which the test has looked
}

// startLab runs a lab until the end of the test.
func startLab(t *testing.T) *liveLab {
	t.Helper()
	l, handler := newTestLab(t)
	l.merger.attend()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	live := &liveLab{T: t, lab: l, handler: handler}
	t.Cleanup(func() {
		dir := ""
		if l.cluster != nil {
			dir = l.cluster.Dir()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%q was left behind (%v)", dir, err)
		}
		if t.Failed() {
			steps, _ := l.stream.after(0)
			for _, s := range steps[max(0, len(steps)-200):] {
				t.Log(s)
			}
		}
	})
	live.wait("workers", func(s Step) bool { return s.Kind == "workersStarted" })
	for !l.isLive() {
		time.Sleep(time.Millisecond) // The state is polled: it follows the step that was waited for.
	}
	return live
}

// do does an act or a fault, such as acts/create.
func (l *liveLab) do(target, body string) {
	l.Helper()
	if w := post(l.handler, "/"+target, body); w.Code != http.StatusOK {
		l.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
}

// wait returns the next step that matches, after those that were waited for before.
func (l *liveLab) wait(what string, matches func(Step) bool) Step {
	l.Helper()
	timeout := time.After(90 * time.Second)
	for {
		steps, more := l.lab.stream.after(l.seen)
		for _, s := range steps {
			l.seen = s.Seq
			if matches(s) {
				return s
			}
		}
		select {
		case <-more:
		case <-timeout:
			l.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// waitPassed waits until an exercise has passed.
func (l *liveLab) waitPassed(id string) {
	l.Helper()
	timeout := time.After(90 * time.Second)
	for {
		_, more := l.lab.stream.after(0)
		if slices.ContainsFunc(l.lab.exercises.state(), func(s exerciseState) bool { return s.ID == id && s.Passed }) {
			return
		}
		select {
		case <-more:
		case <-timeout:
			l.Fatalf("the exercise %s has not passed", id)
		}
	}
}

// waitIdle waits until the Deployment has its replicas, the key of its Foo is neither processed nor queued, also not for the end of the
// write backoff, and the event of the last write has arrived.
func (l *liveLab) waitIdle(replicas int) {
	l.Helper()
	written := l.wait(fmt.Sprintf("%d available replicas", replicas), func(s Step) bool {
		return s.Kind == "response" && s.Resource == foos+"/status" && s.Status == http.StatusOK && isReady(s, replicas)
	})
	l.wait("the last sync", func(s Step) bool {
		steps, _ := l.lab.stream.after(0)
		return s.Kind == "queueDone" && s.Merged == "" && !isQueued(steps, s)
	})
	isEvent := func(s Step) bool { return s.Kind == "handler" && s.ResourceVersion == written.ResourceVersion }
	if steps, _ := l.lab.stream.after(0); first(steps[:l.seen], 0, isEvent) < 0 {
		l.wait("the event of the last write", isEvent)
	}
}

func isReady(s Step, replicas int) bool {
	return strings.Contains(s.Raw, fmt.Sprintf("%d of %d replicas available", replicas, replicas))
}

// TestLab lets the controller live through what the recording shows, and checks that the steps tell it.
func TestLab(t *testing.T) {
	l := startLab(t)
	began := l.seen
	l.do("exercises/first-life", `{"action":"start"}`)
	l.do("acts/create", `{}`)
	l.waitIdle(1)
	l.waitPassed("first-life")
	l.do("acts/scale", `{"replicas":3}`)
	l.waitIdle(3)
	l.do("acts/deleteDeployment", `{}`)
	l.waitIdle(3)

	l.do("exercises/tombstone", `{"action":"start"}`)
	l.do("faults/cutWatch", `{"lane":"deployments"}`)
	l.wait("the end of the watch", func(s Step) bool { return s.Kind == "watchEnd" && s.Lane == deployments })
	l.do("acts/deleteDeployment", `{}`)
	l.wait("the deletion", func(s Step) bool { return s.Kind == "stored" && s.EventType == "DELETED" })
	l.do("faults/healWatch", `{"relist":"yes"}`)
	l.wait("the tombstone", func(s Step) bool { return s.Kind == "handler" && s.EventType == "tombstone" })
	l.waitPassed("tombstone")
	l.waitIdle(3)

	l.do("exercises/forget", `{"action":"start"}`)
	l.do("faults/failWrite", `{"count":5}`)
	l.do("acts/scale", `{"replicas":2}`)
	l.waitPassed("forget")
	l.waitIdle(2)
	l.do("acts/rename", `{}`)
	l.wait("the deletion of the superseded Deployment", func(s Step) bool { return s.Kind == "stored" && s.EventType == "DELETED" })
	l.waitIdle(2)

	steps, _ := l.lab.stream.after(began)
	checkEchoes(t, steps)
	if *recordTo != "" {
		l.resyncAndKillLeader()
		file, err := os.Create(*recordTo)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		all, _ := l.lab.stream.after(0)
		if err := writeRecording(file, all[:l.seen]); err != nil {
			t.Fatal(err)
		}
	}
}

// resyncAndKillLeader lets the controller live through what takes too long for a test that does not record it.
func (l *liveLab) resyncAndKillLeader() {
	l.wait("a resync", func(s Step) bool { return s.Kind == "handler" && s.EventType == "resync" })
	l.wait("its sync", func(s Step) bool { return s.Kind == "queueDone" })
	l.do("faults/replicas", `{"count":"2"}`)
	l.wait("a leader", func(s Step) bool { return s.Kind == "leader" })
	l.wait("the last sync", func(s Step) bool { return s.Kind == "queueDone" })
	for l.lab.pid("") == 0 {
		time.Sleep(time.Millisecond) // The state is polled: it follows the step that was waited for.
	}
	l.do("faults/killLeader", `{}`)
	l.wait("another leader", func(s Step) bool { return s.Kind == "leader" })
	l.wait("the last sync", func(s Step) bool { return s.Kind == "queueDone" })
	l.do("acts/scale", `{"replicas":3}`)
	l.waitIdle(3)
}

// checkEchoes fails unless each write of a Foo or a Deployment came back through the watch, and reached the Indexer.
func checkEchoes(t *testing.T, steps []Step) {
	t.Helper()
	writes := 0
	for _, response := range steps {
		if response.Kind != "response" || response.Lane == "" || response.Verb == "get" || response.Status >= 300 {
			continue
		}
		writes++
		echo := first(steps, 0, func(s Step) bool {
			return s.Kind == "watchEvent" && (s.Echo == response.Seq || response.Echo == s.Seq)
		})
		if echo < 0 {
			t.Errorf("no event brings this write back: %s", response)
			continue
		}
		if response.ResourceVersion != "" && steps[echo].ResourceVersion != response.ResourceVersion && response.Verb != "delete" {
			t.Errorf("the event has resourceVersion %s, and the write %s", steps[echo].ResourceVersion, response.ResourceVersion)
		}
		if first(steps, echo, func(s Step) bool {
			return s.Kind == "indexerSet" && s.Object == steps[echo].Object && s.ResourceVersion == steps[echo].ResourceVersion
		}) < 0 {
			t.Errorf("the event does not reach the Indexer: %s", steps[echo])
		}
	}
	if writes < 10 {
		t.Errorf("there were only %d writes", writes)
	}
}
