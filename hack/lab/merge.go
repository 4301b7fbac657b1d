// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// settleTime is how long records wait for older ones from other sources: a log line comes through a pipe, a watch event
	// directly.
	settleTime = 100 * time.Millisecond
	// mergePeriod is the interval at which records become steps.
	mergePeriod = 10 * time.Millisecond
	// maxRecords bounds the records that wait to become steps. More are dropped, and counted.
	maxRecords = 1 << 17
	// quietPeriod is how long there must be no records until they become steps although nobody looks.
	quietPeriod = time.Second
)

// record is something that happened at a time, and how to trace it.
type record struct {
	at    time.Time
	trace func(*tracer)
}

// merger turns the records of all sources into steps, in the order of time. Sources never wait for it. While nobody looks, it leaves the
// processors to the controller, and makes the steps once nothing happens any more.
type merger struct {
	records   chan record
	dropped   atomic.Int64
	attending atomic.Int64 // how many look
}

func newMerger() *merger { return &merger{records: make(chan record, maxRecords)} }

// attend makes steps without a delay until done is called.
func (m *merger) attend() (done func()) {
	m.attending.Add(1)
	return func() { m.attending.Add(-1) }
}

func (m *merger) record(at time.Time, trace func(*tracer)) {
	select {
	case m.records <- record{at, trace}:
	default:
		m.dropped.Add(1)
	}
}

// run adds steps to the stream until ctx is done, and then those of the last records.
func (m *merger) run(ctx context.Context, t *tracer, s *stream) {
	ticker := time.NewTicker(mergePeriod)
	defer ticker.Stop()
	var waiting []record
	count, changed := 0, time.Now() // of the records in the channel, and since when
	for {
		settled := time.Now().Add(-settleTime)
		select {
		case <-ticker.C:
			if len(m.records) != count {
				count, changed = len(m.records), time.Now()
			}
			if m.attending.Load() == 0 && count > 0 && count < maxRecords/2 && time.Since(changed) < quietPeriod {
				continue
			}
		case <-ctx.Done():
			settled = time.Now()
		}
		for len(m.records) > 0 {
			waiting = append(waiting, <-m.records)
		}
		waiting = m.trace(t, waiting, settled)
		s.add(t.take())
		if ctx.Err() != nil {
			return
		}
	}
}

// trace traces the records until a time, and returns the others.
func (m *merger) trace(t *tracer, waiting []record, until time.Time) []record {
	slices.SortStableFunc(waiting, func(a, b record) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	settled, _ := slices.BinarySearchFunc(waiting, until, func(r record, until time.Time) int { return r.at.Compare(until) })
	for _, r := range waiting[:settled] {
		t.advance(r.at)
		r.trace(t)
	}
	t.advance(until)
	if dropped := m.dropped.Swap(0); dropped > 0 {
		t.emit(Step{Source: inferred, Stop: "act", Kind: "summary", Count: int(dropped), What: "left out: too many at once"})
	}
	return slices.Delete(waiting, 0, settled)
}
