// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// attempts is how often a shorter script is tried: the order of goroutines is not fixed.
const attempts = 3

// shrinker looks for the shortest script whose walk breaks a promise.
type shrinker struct {
	*tester
	t        *testing.T
	promise  Promise
	deadline time.Time
	script   script
	found    *violation // of the script
}

// shrink leaves out steps and faults of a failed walk as long as the promise is broken, and returns its story, and its script.
func (all *tester) shrink(t *testing.T, s script, failed *walk, promise Promise) (string, script) {
	s.faults, s.until = failed.faults, failed.broken[promise].phase
	k := &shrinker{all, t, promise, time.Now().Add(*shrinkTime), s, failed.broken[promise]}
	if !k.breaks(s) {
		return fmt.Sprintf("%s\nIt was not broken again with the same steps and faults:\n%s", k.found, k.found.tale()), s
	}
	k.withFaults(nil)
	k.withoutLags()
	k.with(func(s *script) { s.long, s.meanwhile = nil, nil })
	minimize(k.script.steps, k.withSteps)
	minimize(k.script.meanwhile, func(steps []step) bool { return k.with(func(s *script) { s.meanwhile = steps }) })
	minimize(slices.Sorted(maps.Keys(k.script.faults)), k.withFaults)
	minimize(k.script.steps, k.withSteps)
	k.withoutLags()
	return fmt.Sprintf("%s\nsteps: %d, faults of requests: %d\n%s", k.found, len(k.script.steps), len(k.script.faults), k.found.tale()), k.script
}

// breaks walks through a candidate, and goes on with it instead of the script if the promise is broken.
func (k *shrinker) breaks(candidate script) bool {
	for range attempts {
		if time.Now().After(k.deadline) {
			return false
		}
		if w := k.walk(k.t, candidate, k.promise); w.broken[k.promise] != nil {
			k.script, k.found = candidate, w.broken[k.promise]
			return true
		}
	}
	return false
}

func (k *shrinker) with(change func(s *script)) bool {
	candidate := k.script
	change(&candidate)
	return k.breaks(candidate)
}

func (k *shrinker) withSteps(steps []step) bool { return k.with(func(s *script) { s.steps = steps }) }
func (k *shrinker) withoutLags() bool           { return k.with(func(s *script) { s.noLags = true }) }

func (k *shrinker) withFaults(ids []string) bool {
	return k.with(func(s *script) {
		all := s.faults
		s.faults = map[string]fault{}
		for _, id := range ids {
			s.faults[id] = all[id]
		}
	})
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
