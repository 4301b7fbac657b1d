// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

func TestSync(t *testing.T) {
	for _, result := range []Result{Success, Conflict, Stale, Stalled, Error} {
		t.Run(string(result), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
				legacyregistry.Reset() // It does not reset histograms.
				before, err := testutil.GetHistogramMetricValue(duration.ObserverMetric)
				if err != nil {
					t.Fatal(err)
				}
				SyncStarted()
				verifyMetrics(t, "sample_controller_active_workers", "sample_controller_active_workers 1")
				SyncFinished(result, 3*time.Second)
				verifyMetrics(t, "sample_controller_active_workers", "sample_controller_active_workers 0")
				verifyMetrics(t, "sample_controller_syncs_total", fmt.Sprintf("sample_controller_syncs_total{result=%q} 1", result))
				if after, err := testutil.GetHistogramMetricValue(duration.ObserverMetric); err != nil || after-before != 3 {
					t.Errorf("sync_duration_seconds increased by %v (%v), want 3", after-before, err)
				}
			})
		})
	}
}

func TestSyncPanicked(t *testing.T) {
	legacyregistry.Reset()
	SyncPanicked()
	verifyMetrics(t, "sample_controller_sync_panics_total", "sample_controller_sync_panics_total 1")
}

// verifyMetrics compares the series of a metric with the one that is wanted. Those of counters that are 0 are left out.
func verifyMetrics(t *testing.T, name, want string) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			if len(metric.GetLabel()) == 0 {
				got = append(got, fmt.Sprintf("%s %v", name, value))
			} else if value != 0 {
				got = append(got, fmt.Sprintf("%s{%s=%q} %v", name, metric.GetLabel()[0].GetName(), metric.GetLabel()[0].GetValue(), value))
			}
		}
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("%s = %q, want %q", name, got, want)
	}
}
