// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics/legacyregistry"

	_ "k8s.io/sample-controller/pkg/metrics"
)

// The recordings are of the metrics that the controller has now.
func TestRecordingsAreUpToDate(t *testing.T) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "sample_controller_"
	want := map[string]bool{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), prefix) {
			want[family.GetName()] = true
		}
	}
	for name, r := range readRecordings(t) {
		got := map[string]bool{}
		for _, lset := range r.end.labels {
			name := lset.Get(model.MetricNameLabel)
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			got[name] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has %q, want %q: run make record-metrics", name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}
