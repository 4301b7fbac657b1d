// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package supervision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
)

var objectRef = cache.NewObjectName("default", "example-foo")

func TestRunTellsCountsAndLogsHowASyncEnded(t *testing.T) {
	const failed = "Sync failed; retrying with backoff"
	resource := corev1.Resource("pods")
	terminating := apierrors.NewForbidden(resource, "pod", errors.New("the namespace is going away"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	conflict := func() error { return apierrors.NewConflict(resource, "pod", nil) }
	problem := func() error { return fmt.Errorf("sync: %w", &foostatus.Problem{Message: "the name is taken"}) }
	for name, test := range map[string]struct {
		sync    func() error
		retries int
		want    Result
		log     string
	}{
		"nothing is left to do":                 {func() error { return nil }, 0, Success, ""},
		"someone else was faster":               {conflict, quietRetries - 1, Superseded, ""},
		"someone else is always faster":         {conflict, quietRetries, Superseded, failed},
		"an object has just gone":               {func() error { return apierrors.NewNotFound(resource, "pod") }, 0, Superseded, ""},
		"a namespace is going away":             {func() error { return terminating }, 2 * quietRetries, Superseded, ""},
		"the cache is behind":                   {func() error { return consistency.ErrBehind }, 2 * quietRetries, Waiting, ""},
		"someone has to help":                   {problem, 0, Problem, ""},
		"the API server is down":                {func() error { return apierrors.NewServiceUnavailable("down") }, 0, Error, failed},
		"a permission is missing":               {func() error { return apierrors.NewForbidden(resource, "pod", nil) }, 1, Error, failed},
		"there is a bug":                        {func() error { panic("a bug") }, 0, Panic, "supervision_test.go"},
		"there is a bug that panics with nil":   {func() error { panic(nil) }, 0, Panic, "supervision_test.go"},
		"there is a bug that reads through nil": {func() error { return (*failing)(nil).fail() }, 0, Panic, "supervision_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			legacyregistry.Reset() // It leaves histograms as they are.
			timed, _ := testutil.GetHistogramMetricCount(seconds.ObserverMetric)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
			sync := func(_ context.Context, got cache.ObjectName) error {
				if got != objectRef {
					t.Errorf("%s is synced, want %s", got, objectRef)
				}
				return test.sync()
			}
			if result := Run(klog.NewContext(t.Context(), logger), objectRef, test.retries, sync); result != test.want {
				t.Errorf("Run() = %s, want %s", result, test.want)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if (log == "") != (test.log == "") || !strings.Contains(log, test.log) {
				t.Errorf("the log says %q, want %q", log, test.log)
			}
			if got, err := testutil.GetHistogramMetricCount(seconds.ObserverMetric); err != nil || got != timed+1 {
				t.Errorf("%d syncs were timed, %v, want %d", got, err, timed+1)
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

func TestGraceOutlivesItsContextByThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		ctx, cancel := context.WithCancel(t.Context())
		graceCtx, end := Grace(ctx, time.Minute)
		defer end()
		time.Sleep(time.Hour) // As long as its context lasts, it does.
		cancel()
		time.Sleep(time.Minute - time.Nanosecond) // Just before the period ends.
		if err := context.Cause(graceCtx); err != nil {
			t.Errorf("it has ended early: %v", err)
		}
		time.Sleep(time.Nanosecond) // Its end.
		synctest.Wait()
		if err := context.Cause(graceCtx); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("it ended with %v, want an error that tells of it", err)
		}
	})
}

func TestGraceEndsWhenItIsToldTo(t *testing.T) {
	graceCtx, end := Grace(t.Context(), time.Minute)
	end()
	if err := context.Cause(graceCtx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want %v", err, context.Canceled)
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
