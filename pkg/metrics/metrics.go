// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of syncs and priorities, in the registry of k8s.io/component-base.
package metrics

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The values of the label "result": how a sync ended. After all but Success the object is synced again later.
const (
	Success    = "success"
	Conflict   = "conflict"    // Another client has changed or deleted an object, or deletes its namespace.
	Stale      = "stale"       // A cache has not caught up.
	NotLeading = "not_leading" // The Lease is lost.
	Paused     = "paused"      // The status was updated just before.
	Stalled    = "stalled"     // A user has to act, as the object's status says.
	Error      = "error"
)

// The metrics of syncs and of the workqueue. A sync that panicked counts as one with the result Error as well.
var (
	Syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "sample_controller_syncs_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs by result: success, conflict, stale, not_leading, paused, stalled or error.",
	}, []string{"result"})
	// StaleSyncSkips is named and labelled as in the controllers of kube-controller-manager.
	StaleSyncSkips = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "sample_controller_stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs that were skipped because the cache of a resource was stale.",
	}, []string{"group", "resource"})
	SyncDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "sample_controller_sync_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Duration of syncs in seconds.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 12), // 10 µs to 42 s
	})
	SyncPanics = metrics.NewCounter(&metrics.CounterOpts{
		Name: "sample_controller_sync_panics_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs that panicked.",
	})
	ActiveWorkers = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "sample_controller_active_workers", StabilityLevel: metrics.ALPHA,
		Help: "Number of workers that are syncing an object.",
	})
	QueueDepth = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "workqueue_depth_by_priority", StabilityLevel: metrics.ALPHA,
		Help: "Number of items of a workqueue that wait for a worker by priority: high or low.",
	}, []string{"name", "priority"})
)

func init() {
	legacyregistry.MustRegister(Syncs, StaleSyncSkips, SyncDuration, SyncPanics, ActiveWorkers, QueueDepth)
	for _, result := range []string{Success, Conflict, Stale, NotLeading, Paused, Stalled, Error} {
		Syncs.WithLabelValues(result) // A series that starts at 0 shows the first increase to rate().
	}
}
