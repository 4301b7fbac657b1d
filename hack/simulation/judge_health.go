// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/sample-controller/hack/simulation/recording"
)

// judgeExit judges the end of a process.
func (w *walk) judgeExit(i *instance, err error) {
	w.lock.Lock()
	stopped, over := i.stopped || w.over, w.over
	calm := !w.calmSince.IsZero() && time.Since(w.calmSince) > max(2*startTime, w.electionTime()) && !w.isHidden
	w.lock.Unlock()
	w.add(line{who: i.name, what: fmt.Sprintf("ends: %v", err), kind: recording.Ended})
	switch {
	case !stopped && err == nil:
		w.violated(Health, "%s ends without an error, although nothing has stopped it", i.name)
	case calm && err != nil && !over && !stopped:
		w.violated(Health, "%s ends with the error %v", i.name, err)
	}
}

// judgeLeftover judges a bubble that has ended while goroutines of the program are still there. Another panic goes on.
func (w *walk) judgeLeftover(cause any) {
	err, ok := cause.(error)
	if !ok || !strings.Contains(err.Error(), "deadlock") {
		panic(cause)
	}
	// What belongs to the bubble cannot be used outside of it.
	w.ended, w.start = make(chan struct{}), time.Now().Add(-w.took-leftoverTime)
	left := slices.Compact(slices.Sorted(slices.Values(leftIn(w.bubble))))
	w.violated(NoLeftover, "%s after the end, goroutines of the program are left: %s", leftoverTime, strings.Join(left, ", "))
}
