// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shrink leaves out steps and faults of a failed walk as long as the same promise is broken, and returns its story.
func shrink(t *testing.T, program Program, s script, failed *walk) string {
	promise, deadline := failed.violation.promise, time.Now().Add(*shrinkTime)
	s.faults = failed.faults
	// fails walks through a candidate, and goes on with it instead of s if it fails as well.
	fails := func(candidate script) bool {
		for range 3 { // The order of goroutines is not fixed.
			if time.Now().After(deadline) {
				return false
			}
			if w := candidate.walk(t, program); w.violation != nil && w.violation.promise == promise {
				failed, s = w, candidate
				return true
			}
		}
		return false
	}
	withSteps := func(steps []step) bool { candidate := s; candidate.steps = steps; return fails(candidate) }
	withoutLags := func() bool { candidate := s; candidate.noLags = true; return fails(candidate) }
	withFaults := func(ids []string) bool {
		candidate := s
		candidate.faults = map[string]Fault{}
		for _, id := range ids {
			candidate.faults[id] = s.faults[id]
		}
		return fails(candidate)
	}

	if !fails(s) {
		return fmt.Sprintf("%s\nIt did not happen again with the same steps and faults:\n%s", failed.violation, failed.tale())
	}
	withFaults(nil)
	withoutLags()
	minimize(s.steps, withSteps)
	minimize(slices.Sorted(maps.Keys(s.faults)), withFaults)
	minimize(s.steps, withSteps)
	withoutLags()
	return fmt.Sprintf("%s\nsteps: %d, faults of requests: %d\n%s", failed.violation, len(s.steps), len(s.faults), failed.tale())
}

// minimize leaves out parts of a list, first large and then small ones, as long as fails reports true for the rest.
func minimize[T any](list []T, fails func([]T) bool) []T {
	for size := (len(list) + 1) / 2; size > 0; size /= 2 {
		for start := 0; start < len(list); {
			end := min(start+size, len(list))
			if rest := slices.Concat(list[:start], list[end:]); fails(rest) {
				list = rest
				continue
			}
			start = end
		}
	}
	return list
}

// story is what happens in a walk, until a promise is broken.
type story struct {
	start time.Time
	// failed is closed when a promise is broken: the rest of the walk is skipped.
	failed chan struct{}
	judged []string // the promises that are judged, or nil for all

	lock      sync.Mutex // It may be taken with any other lock held.
	lines     []string
	violation *violation
}

// violation is a promise that was broken.
type violation struct{ promise, what string }

// String implements fmt.Stringer.
func (v *violation) String() string { return v.promise + ": " + v.what }

// tell adds a line to the story, unless there is nothing to tell.
func (s *story) tell(who, format string, args ...any) {
	if what := fmt.Sprintf(format, args...); what != "" {
		s.add(who, what, nil)
	}
}

// violated ends the story with a broken promise, if that is judged.
func (s *story) violated(promise, format string, args ...any) {
	if s.judged != nil && !slices.Contains(s.judged, promise) {
		return
	}
	broken := &violation{promise, fmt.Sprintf(format, args...)}
	s.add("BROKEN PROMISE", broken.String(), broken)
}

// add adds a line to the story, unless it has ended. With a violation, it is the last one.
func (s *story) add(who, what string, broken *violation) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.violation != nil {
		return
	}
	s.lines = append(s.lines, fmt.Sprintf("%9.3fs  %-21s %s", time.Since(s.start).Seconds(), who, what))
	if broken != nil {
		s.violation = broken
		close(s.failed)
	}
}

func (s *story) hasFailed() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.violation != nil
}

// tale returns the story, with the broken promise at its end.
func (s *story) tale() string { return strings.Join(s.lines, "\n") }
