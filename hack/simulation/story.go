// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// shrink leaves out steps and faults of a failed walk as long as the same promise is broken, and returns its story.
func shrink(t *testing.T, program Program, s script, failed *walk) string {
	promise, deadline := failed.violation.promise, time.Now().Add(*shrinkTime)
	s.faults = failed.faults
	fails := func(candidate script) bool {
		for range 3 { // The order of goroutines is not fixed.
			if time.Now().After(deadline) {
				return false
			}
			if w := candidate.walk(t, program); w.violation != nil && w.violation.promise == promise {
				failed = w
				return true
			}
		}
		return false
	}
	withSteps := func(steps []step) script { candidate := s; candidate.steps = steps; return candidate }
	withFaults := func(ids []string) script {
		candidate := s
		candidate.faults = map[string]fault{}
		for _, id := range ids {
			candidate.faults[id] = s.faults[id]
		}
		return candidate
	}
	withoutLags := func() script { candidate := s; candidate.noLags = true; return candidate }

	if !fails(s) {
		return fmt.Sprintf("%s\nIt did not happen again with the same steps and faults:\n%s", failed.violation, failed.tale())
	}
	if fails(withFaults(nil)) {
		s = withFaults(nil)
	}
	if fails(withoutLags()) {
		s = withoutLags()
	}
	s = withSteps(minimize(s.steps, func(steps []step) bool { return fails(withSteps(steps)) }))
	s = withFaults(minimize(slices.Sorted(maps.Keys(s.faults)), func(ids []string) bool { return fails(withFaults(ids)) }))
	s = withSteps(minimize(s.steps, func(steps []step) bool { return fails(withSteps(steps)) }))
	if fails(withoutLags()) {
		s = withoutLags()
	}
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

// tale returns the story. The broken promise is its end.
func (w *walk) tale() string { return strings.Join(w.story, "\n") }
