// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"strconv"
	"time"
)

// weight approximates the time to compile a package. A count of packages predicts about 60 % of the time that is left, and
// the size of the sources even less: the packages at the end depend on most of the others, and the compiler reads their
// export data. The ratio was fitted to the times of a build of all packages.
func weight(files, deps int) int {
	const depsPerFile = 50
	return depsPerFile*(files+1) + deps
}

// estimate predicts the remaining time of a build from the time of the packages compiled so far.
type estimate struct {
	weights     map[string]int // of the packages left to compile
	start       time.Time
	count       int
	total, left int // sums of weights
}

func newEstimate(weights map[string]int) *estimate {
	e := &estimate{weights: weights, start: time.Now(), count: len(weights)}
	for _, w := range weights {
		e.total += w
	}
	e.left = e.total
	return e
}

// compile records that a package is being compiled. It returns false if the package is unknown or was recorded before.
func (e *estimate) compile(pkg string) bool {
	w, ok := e.weights[pkg]
	delete(e.weights, pkg)
	e.left -= w
	return ok
}

// compiled returns the number of recorded packages.
func (e *estimate) compiled() int { return e.count - len(e.weights) }

// String returns the remaining time as part of a message, or nothing as long as too little is known.
func (e *estimate) String() string {
	const warmUp = 10 * time.Second
	elapsed, done := time.Since(e.start), e.total-e.left
	if elapsed < warmUp || done == 0 {
		return ""
	}
	minutes := math.Round(elapsed.Minutes() * float64(e.left) / float64(done))
	if minutes < 1 {
		return ", less than 1 min left"
	}
	return ", about " + strconv.Itoa(int(minutes)) + " min left"
}
