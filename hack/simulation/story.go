// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/sample-controller/hack/simulation/recording"
)

// story is what happens in a walk, a line each.
type story struct {
	start time.Time
	// ended is closed when the walk cannot go on, or need not.
	ended chan struct{}
	// recorder records what happens, in more detail, if isRecorded says so. Otherwise it is nil.
	isRecorded bool
	recorder   *recording.Recorder

	stopAt Promise // It ends the walk if it is broken, and so does any other if it is anyPromise.
	exempt []Promise
	judged []Promise // or nil for all

	lock   sync.Mutex // It may be taken with any other lock held.
	lines  []line
	phase  int // Each part of a walk has a number.
	isOver bool
	broken map[Promise]*violation // the first of each promise
}

// line is a line of a story. Consecutive ones about the same progress, such as that of a rollout, become one.
type line struct {
	at       time.Duration
	who      string
	what     string
	progress string
	kind     recording.Kind // in a recording: Told if it is empty
}

// String implements fmt.Stringer.
func (l line) String() string { return fmt.Sprintf("%9.3fs  %-21s %s", l.at.Seconds(), l.who, l.what) }

// anyPromise stands for all promises.
const anyPromise Promise = "*"

// violation is a promise that was broken.
type violation struct {
	promise Promise
	what    string
	lines   []line // the story until then
	phase   int    // in which part of the walk
}

// String implements fmt.Stringer.
func (v *violation) String() string { return string(v.promise) + ": " + v.what }

// tale returns the story until the promise was broken.
func (v *violation) tale() string { return join(v.lines) }

// last returns the last lines, if nothing holds the story.
func (s *story) last(n int) string {
	if !s.lock.TryLock() {
		return ""
	}
	defer s.lock.Unlock()
	return join(s.lines[max(0, len(s.lines)-n):])
}

func join(lines []line) string {
	var text []string
	for _, l := range lines {
		text = append(text, l.String())
	}
	return strings.Join(text, "\n")
}

// tell adds a line to the story, unless there is nothing to tell.
func (s *story) tell(who, what string) {
	if what != "" {
		s.add(line{who: who, what: what})
	}
}

func (s *story) add(l line) {
	s.lock.Lock()
	defer s.lock.Unlock()
	l.at = time.Since(s.start)
	if l.kind != recording.Stored { // A recording has it as an object.
		s.recorder.Add(recording.Entry{At: l.at, Kind: cmp.Or(l.kind, recording.Told), Client: l.who, Text: l.what})
	}
	if last := len(s.lines) - 1; l.progress != "" && last >= 0 && s.lines[last].progress == l.progress {
		s.lines = slices.Clone(s.lines[:last]) // A violation may have the old ones.
	}
	s.lines = append(s.lines, l)
}

// violated records a broken promise, if it is judged and the first one.
func (s *story) violated(promise Promise, format string, args ...any) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.judges(promise) || s.broken[promise] != nil || s.isOver {
		return
	}
	v := &violation{promise: promise, what: fmt.Sprintf(format, args...), phase: s.phase}
	at := time.Since(s.start)
	s.lines = append(s.lines, line{at: at, who: "BROKEN PROMISE", what: v.String()})
	s.recorder.Add(recording.Entry{At: at, Kind: recording.Broken, Promise: string(promise), Text: v.what})
	v.lines = slices.Clip(s.lines)
	s.broken[promise] = v
	if s.stopAt == promise || s.stopAt == anyPromise || slices.Contains(fatal, promise) {
		s.isOver = true
		s.recorder.Close()
		close(s.ended)
	}
}

// judges reports whether a promise is judged.
func (s *story) judges(promise Promise) bool {
	isJudged := s.judged == nil || slices.Contains(s.judged, promise) || promise == simulated
	return isJudged && !slices.Contains(s.exempt, promise)
}

// enter begins the next part of a walk.
func (s *story) enter(phase int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.phase = phase
}

func (s *story) isEnded() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.isOver
}

func (s *story) isBroken(promise Promise) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.broken[promise] != nil
}

// sleep lets time pass, at most until the walk ends.
func (s *story) sleep(duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ended:
	}
}
