// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func waitForMutex(lock *sync.Mutex) {
	lock.Lock()
	defer lock.Unlock()
}

// TestWaiting has a goroutine in a bubble that waits for a mutex: virtual time would not pass.
func TestWaiting(t *testing.T) {
	var lock sync.Mutex
	lock.Lock()
	var running sync.WaitGroup
	running.Go(func() { synctest.Test(t, func(*testing.T) { waitForMutex(&lock) }) })
	isNamed := func() bool { return strings.Contains(strings.Join(waiting(stacks()), "\n"), "waitForMutex") }
	for start := time.Now(); !isNamed(); time.Sleep(time.Millisecond) { // The stacks are polled.
		if time.Since(start) > time.Minute {
			t.Errorf("the goroutine is not found in:\n%s", stacks())
			break
		}
	}
	lock.Unlock()
	running.Wait()
}

// TestHangs says what other walks have shown, and how to go on without the one that hangs.
func TestHangs(t *testing.T) {
	w := newWalk(newTestTester(t, Config{}), script{name: "a walk"})
	w.sums.tell("the story of another walk")
	got := w.hangs("TestSimulation/probes/an_error", "goroutine 1 [running]\nmanager.(*runnableGroup).Start.func1()")
	for _, want := range []string{
		"the story of another walk", "a walk hangs", "goroutine 1 [running]", "-skip='^TestSimulation$/^probes$/^an_error$'", "set SyncsFirst",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %s:\n%s", want, got)
		}
	}
}
