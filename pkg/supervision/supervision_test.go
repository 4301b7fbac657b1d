// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package supervision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
)

func TestRunTellsAndCountsHowASyncEnded(t *testing.T) {
	resource := corev1.Resource("pods")
	terminating := apierrors.NewForbidden(resource, "pod", errors.New("the namespace is going away"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		sync func() error
		want Result
	}{
		"nothing is left to do":                 {func() error { return nil }, Success},
		"someone else was faster":               {func() error { return apierrors.NewConflict(resource, "pod", nil) }, Superseded},
		"an object has just gone":               {func() error { return apierrors.NewNotFound(resource, "pod") }, Superseded},
		"a namespace is going away":             {func() error { return terminating }, Superseded},
		"the cache is behind":                   {func() error { return consistency.ErrBehind }, Waiting},
		"someone has to help":                   {func() error { return &foostatus.Problem{Reason: "Taken"} }, Problem},
		"someone has to help, says an error":    {func() error { return fmt.Errorf("sync: %w", &foostatus.Problem{}) }, Problem},
		"the API server is down":                {func() error { return apierrors.NewServiceUnavailable("down") }, Error},
		"a permission is missing":               {func() error { return apierrors.NewForbidden(resource, "pod", nil) }, Error},
		"there is a bug":                        {func() error { panic("a bug") }, Panic},
		"there is a bug that panics with nil":   {func() error { panic(nil) }, Panic},
		"there is a bug that reads through nil": {func() error { return (*failing)(nil).fail() }, Panic},
	} {
		t.Run(name, func(t *testing.T) {
			legacyregistry.Reset()
			result, duration, err := Run(test.sync)
			if result != test.want || (err == nil) != (test.want == Success) || duration <= 0 {
				t.Errorf("Run() = %s, %s, %v, want %s", result, duration, err, test.want)
			}
			if result == Panic && !strings.Contains(err.Error(), "supervision_test.go") {
				t.Errorf("the error does not hold the stack: %v", err)
			}
			wantPanics := 0.0
			if test.want == Panic {
				wantPanics = 1
			}
			for metric, want := range map[string]float64{
				"sample_controller_syncs_total": 1, "sample_controller_sync_panics_total": wantPanics, "sample_controller_active_workers": 0,
			} {
				if got := valueOf(t, metric, string(test.want)); got != want {
					t.Errorf("%s = %v, want %v", metric, got, want)
				}
			}
		})
	}
}

type failing struct{ err error }

func (f *failing) fail() error { return f.err }

// valueOf returns the value of a metric: that of the given result, if the metric tells results apart.
func valueOf(t *testing.T, name, result string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) == 0 || testutil.LabelsMatch(metric, map[string]string{"result": result}) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
