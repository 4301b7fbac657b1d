// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Each series exists from the start, so that rate() sees its first increase.
func TestSeries(t *testing.T) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			value := ""
			for _, label := range metric.GetLabel() {
				value = label.GetName() + "=" + label.GetValue()
			}
			got[family.GetName()] = append(got[family.GetName()], value)
		}
	}
	for name, want := range map[string][]string{
		"sample_controller_active_workers":        {""},
		"sample_controller_sync_duration_seconds": {""},
		"sample_controller_sync_panics_total":     {""},
		"sample_controller_syncs_total": {"result=conflict", "result=error", "result=not_leading", "result=paused",
			"result=stale", "result=stalled", "result=success"},
	} {
		if slices.Sort(got[name]); !slices.Equal(got[name], want) {
			t.Errorf("%s has the series %q, want %q", name, got[name], want)
		}
	}
}
