// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervision runs syncs so that each of them is timed, counted and told of in the log, none can take the process down,
// and those that are running when it ends may finish. Its metrics are in the registry of k8s.io/component-base.
package supervision

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

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

// quietRetries is how often a Foo may have been queued again until it is an error, and not the ordinary course of things, that
// something has only just changed or gone.
const quietRetries = 5

// Run syncs the Foo of that namespace/name and returns how that ended. The log tells of failures, but not of a Problem, which the
// sync itself has told. The number of retries is how often the Foo has been queued again since its last success.
func Run(ctx context.Context, objectRef cache.ObjectName, retries int, sync func(context.Context, cache.ObjectName) error) Result {
	active.Inc()
	start := time.Now()
	result, err := guard(func() error { return sync(ctx, objectRef) })
	duration := time.Since(start)
	active.Dec()
	seconds.Observe(duration.Seconds())
	total.WithLabelValues(string(result)).Inc()

	logger := klog.FromContext(ctx)
	logger.V(4).Info("Finished syncing", "foo", objectRef, "duration", duration, "result", result, "err", err)
	switch {
	case result == Success, result == Waiting, result == Problem:
	case result == Superseded && retries < quietRetries, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	default:
		logger.Error(err, "Sync failed; retrying with backoff", "foo", objectRef)
	}
	return result
}

// guard makes an error that holds the stack of a panic.
func guard(sync func() error) (result Result, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result, err = Panic, fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
			panics.Inc()
		}
	}()
	err = sync()
	return resultOf(err), err
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

// Grace returns a context for syncs that may outlive ctx, by the given period at most. If it ends then, its cause is an error
// that says so; end ends it before.
func Grace(ctx context.Context, period time.Duration) (graceCtx context.Context, end func()) {
	graceCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(period):
			cancel(fmt.Errorf("syncs were still running %s after the shutdown began and were cut short", period))
		case <-graceCtx.Done():
		}
	})
	return graceCtx, func() {
		stop()
		cancel(nil)
	}
}
