// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

var walks, firstSeed, soak, shrinkTime = new(50), new(uint64(1)), new(time.Duration), new(time.Minute)

// Flags adds the flags of Test. Not all programs that import this package want them.
func Flags() {
	flag.IntVar(walks, "walks", *walks, "how many random walks")
	flag.Uint64Var(firstSeed, "seed", *firstSeed, "seed of the first random walk")
	flag.DurationVar(soak, "soak", *soak, "how long to go on with random walks")
	flag.DurationVar(shrinkTime, "shrink", *shrinkTime, "how long the first failed walk is shrunk at most")
}

// Test tests a program with the trials, each of which shows a promise, and with random walks. What fails is told as a story. The first walk
// that fails is shrunk before.
func Test(t *testing.T, program Program) {
	percent := debug.SetGCPercent(400) // A walk makes much garbage, and needs little memory.
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, trial := range trials {
		if trial.walks > *walks {
			continue
		}
		t.Run(trial.name, func(t *testing.T) {
			t.Parallel()
			w := newWalk(script{}, program)
			w.isTrial = true
			w.inBubble(t, 1, func() { trial.run(w) })
			if w.violation != nil {
				t.Errorf("%s\n%s", w.violation, w.tale())
			}
		})
	}

	var total walked
	start, next := time.Now(), *firstSeed
	for *walks > 0 && (next == *firstSeed || time.Since(start) < *soak) && !t.Failed() {
		t.Run("walks", func(t *testing.T) {
			for seed := next; seed < next+uint64(*walks); seed++ {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					t.Parallel()
					total.test(t, program, newScript(seed))
				})
			}
		})
		next += uint64(*walks)
		if *soak > 0 {
			fmt.Printf("%s, in %s\n", &total, time.Since(start).Round(time.Second))
		}
	}
}

// walked sums up the random walks.
type walked struct {
	lock     sync.Mutex
	walks    int
	happened int
	virtual  time.Duration
	first    sync.Once
}

// String implements fmt.Stringer.
func (t *walked) String() string {
	return fmt.Sprintf("%d walks with %d actions and faults, %.1f virtual hours", t.walks, t.happened, t.virtual.Hours())
}

// test walks through a script, and tells what goes wrong.
func (total *walked) test(t *testing.T, program Program, s script) {
	w := s.walk(t, program)
	total.lock.Lock()
	total.walks++
	total.happened += w.happened
	total.virtual += w.took
	total.lock.Unlock()
	if w.violation == nil {
		return
	}
	story := w.violation.String()
	if *shrinkTime > 0 {
		total.first.Do(func() { story = shrink(t, program, s, w) })
	}
	t.Errorf("%s\nrepeat it with: go test -run='^TestSimulation$/^walks$' . -walks=1 -seed=%d", story, s.seed)
}

// walk walks through the script.
func (s script) walk(t *testing.T, program Program) *walk {
	w := newWalk(s, program)
	w.requestFault, w.eventLag = s.requestFault, s.lag
	return w.inBubble(t, 2, w.run)
}
