// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"slices"
)

// exercises are the states of the exercises.
type exercises []exerciseState

type exerciseState struct {
	ID     string `json:"id"`
	Active bool   `json:"active"`
	Passed bool   `json:"passed"`
	Seq    int64  `json:"seq,omitempty"` // of the step at which it passed

	seen []Step // since it is active
}

func newExercises() (e exercises) {
	for _, id := range slices.Sorted(maps.Keys(checks)) {
		e = append(e, exerciseState{ID: id})
	}
	return e
}

func (e exercises) state() []exerciseState { return slices.Clone(e) }

// set begins an exercise anew, or ends it, and reports whether there is one of that ID.
func (e exercises) set(id string, active bool) error {
	i := slices.IndexFunc(e, func(s exerciseState) bool { return s.ID == id })
	if i < 0 {
		return fmt.Errorf("%w: there is no exercise %q", errInvalid, id)
	}
	e[i] = exerciseState{ID: id, Active: active}
	return nil
}

// check checks the active exercises, after further steps, and returns a step for each that passes now.
func (e exercises) check(steps []Step) (passed []Step) {
	for i := range e {
		s := &e[i]
		if !s.Active || s.Passed {
			continue
		}
		s.seen = append(s.seen, steps...)
		s.seen = s.seen[max(0, len(s.seen)-keptSteps):]
		why, ok := checks[s.ID](s.seen)
		if !ok {
			continue
		}
		s.Passed, s.Active, s.Seq, s.seen = true, false, steps[len(steps)-1].Seq, nil
		passed = append(passed, Step{Source: inferred, Stop: "exercise", Kind: "exercise", Name: s.ID, What: why})
	}
	return passed
}
