// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// keptSteps is how many steps of the past a stream keeps for those who come late. It keeps up to twice as many.
const keptSteps = 20000

// stream keeps the newest steps and wakes those who wait for more. Nobody who reads makes a writer wait.
type stream struct {
	lock    sync.Mutex
	steps   []Step // consecutive, oldest first
	changed chan struct{}
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

// add appends steps, which have consecutive numbers.
func (s *stream) add(steps []Step) {
	if len(steps) == 0 {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.steps) >= 2*keptSteps {
		s.steps = slices.Clone(s.steps[len(s.steps)-keptSteps:])
	}
	s.steps = append(s.steps, steps...)
	close(s.changed)
	s.changed = make(chan struct{})
}

// after returns the kept steps with a greater number than seq, and a channel that is closed when there are more. The steps must
// not be changed.
func (s *stream) after(seq int64) ([]Step, <-chan struct{}) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.steps) == 0 {
		return nil, s.changed
	}
	first := s.steps[0].Seq
	return s.steps[min(max(0, seq+1-first), int64(len(s.steps))):], s.changed
}

// last returns the number of the newest step.
func (s *stream) last() int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.steps) == 0 {
		return 0
	}
	return s.steps[len(s.steps)-1].Seq
}

// writeRecording writes steps, one a line.
func writeRecording(w io.Writer, steps []Step) error {
	encoder := json.NewEncoder(w)
	for _, s := range steps {
		if err := encoder.Encode(s); err != nil {
			return err
		}
	}
	return nil
}
