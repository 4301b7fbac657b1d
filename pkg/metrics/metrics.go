// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of syncs, in the registry of k8s.io/component-base.
package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Result is how a sync ended. After all but Success the Foo is synced again later.
type Result string

// The results of a sync.
const (
	Success  Result = "success"
	Conflict Result = "conflict" // Another client has changed or deleted an object, or deletes its namespace.
	Stale    Result = "stale"    // A cache has not caught up with the API server, or the Lease is lost.
	Stalled  Result = "stalled"  // A user has to act, as the Foo's status says.
	Error    Result = "error"
)

var (
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "sample_controller_syncs_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs of a Foo by result: success, conflict, stale, stalled or error.",
	}, []string{"result"})
	duration = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "sample_controller_sync_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Duration of the syncs of a Foo in seconds.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 12), // 10 µs to 42 s
	})
	panics = metrics.NewCounter(&metrics.CounterOpts{
		Name: "sample_controller_sync_panics_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs of a Foo that panicked.",
	})
	activeWorkers = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "sample_controller_active_workers", StabilityLevel: metrics.ALPHA,
		Help: "Number of workers that are syncing a Foo.",
	})
)

func init() {
	legacyregistry.MustRegister(syncs, duration, panics, activeWorkers)
	for _, result := range []Result{Success, Conflict, Stale, Stalled, Error} {
		syncs.WithLabelValues(string(result)) // A series that starts at 0 shows the first increase to rate().
	}
}

// SyncStarted counts a worker as active.
func SyncStarted() { activeWorkers.Inc() }

// SyncFinished counts the result and the duration of a sync, and its worker as no longer active.
func SyncFinished(result Result, took time.Duration) {
	activeWorkers.Dec()
	duration.Observe(took.Seconds())
	syncs.WithLabelValues(string(result)).Inc()
}

// SyncPanicked counts a sync that panicked, beside its result.
func SyncPanicked() { panics.Inc() }
