// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervision runs syncs so that each of them is counted and timed, and none can take the process down. Its metrics
// are in the registry of k8s.io/component-base.
package supervision

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
)

// Result is how a sync ended.
type Result string

// The results that a sync can have. All but Success mean that it is to be tried again.
const (
	// Success means that there is nothing left to do.
	Success Result = "success"
	// Superseded means that something has only just changed or gone, alone or with its namespace. That is the ordinary
	// course of things.
	Superseded Result = "superseded"
	// Waiting means that a cache is behind the API server.
	Waiting Result = "waiting"
	// Problem means that someone has to help, and has been told by the Foo's status.
	Problem Result = "problem"
	// Error means that something failed that may work the next time.
	Error Result = "error"
	// Panic means that there is a bug.
	Panic Result = "panic"
)

var results = []Result{Success, Superseded, Waiting, Problem, Error, Panic}

const subsystem = "sample_controller"

var (
	total = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "syncs_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs of a Foo, by result: success, superseded, waiting, problem, error or panic.",
	}, []string{"result"})
	seconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "sync_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long the syncs of a Foo took, in seconds.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 12), // 10 µs to 42 s
	})
	panics = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "sync_panics_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs of a Foo that panicked.",
	})
	active = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "active_workers", StabilityLevel: metrics.ALPHA,
		Help: "Number of workers that are syncing a Foo at this moment.",
	})
)

func init() {
	legacyregistry.MustRegister(total, seconds, panics, active)
	for _, result := range results {
		total.WithLabelValues(string(result)) // So that each is there from the start, with the value 0.
	}
}

// Run runs a sync and returns its error, what kind of end that is, and how long it took. A panic becomes an error that holds
// its stack.
func Run(sync func() error) (result Result, duration time.Duration, err error) {
	active.Inc()
	start := time.Now()
	defer func() {
		if panicked := recover(); panicked != nil {
			result, err = Panic, fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
			panics.Inc()
		}
		duration = time.Since(start)
		active.Dec()
		seconds.Observe(duration.Seconds())
		total.WithLabelValues(string(result)).Inc()
	}()
	err = sync()
	return resultOf(err), 0, err
}

func resultOf(err error) Result {
	var problem *foostatus.Problem
	switch {
	case err == nil:
		return Success
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Superseded
	case errors.Is(err, consistency.ErrBehind):
		return Waiting
	case errors.As(err, &problem):
		return Problem
	}
	return Error
}
