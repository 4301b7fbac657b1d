// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

// exposition is what one scrape of an instance returned.
type exposition struct {
	time     time.Time
	values   map[string]float64 // by series
	labels   map[string]labels.Labels
	counters map[string]bool // also the series of a histogram
}

// readExposition reads a file that the command record wrote.
func readExposition(t *testing.T, path string) exposition {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e := exposition{values: map[string]float64{}, labels: map[string]labels.Labels{}, counters: map[string]bool{}}
	firstLine, _, _ := strings.Cut(string(content), "\n")
	if e.time, err = time.Parse("# "+time.RFC3339Nano, firstLine); err != nil {
		t.Fatal(err)
	}
	types := map[string]model.MetricType{}
	parser := textparse.NewPromParser(content, labels.NewSymbolTable(), false)
	for {
		switch entry, err := parser.Next(); {
		case errors.Is(err, io.EOF):
			return e
		case err != nil:
			t.Fatalf("%s: %v", path, err)
		case entry == textparse.EntryType:
			name, metricType := parser.Type()
			types[string(name)] = metricType
		case entry == textparse.EntrySeries:
			var lset labels.Labels
			parser.Labels(&lset)
			_, _, value := parser.Series()
			key := lset.String()
			e.labels[key], e.values[key], e.counters[key] = lset, value, isCounter(lset.Get(model.MetricNameLabel), types)
		}
	}
}

// isCounter reports whether a series only increases.
func isCounter(name string, types map[string]model.MetricType) bool {
	if types[name] == model.MetricTypeCounter {
		return true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return types[base] == model.MetricTypeHistogram || types[base] == model.MetricTypeSummary
		}
	}
	return false
}

// recording is an instance at the start and at the end of a phase of a real run.
type recording struct{ start, end exposition }

// perSecond returns by how much a counter increased.
func (r recording) perSecond(key string) float64 {
	return (r.end.values[key] - r.start.values[key]) / r.end.time.Sub(r.start.time).Seconds()
}

// readRecordings reads all recordings, such as healthy-leader.
func readRecordings(t *testing.T) map[string]recording {
	t.Helper()
	starts, err := filepath.Glob("testdata/*-start.txt")
	if err != nil || len(starts) == 0 {
		t.Fatalf("no recordings, run make record-metrics: %v", err)
	}
	recordings := map[string]recording{}
	for _, start := range starts {
		prefix := strings.TrimSuffix(start, "-start.txt")
		recordings[filepath.Base(prefix)] = recording{readExposition(t, start), readExposition(t, prefix+"-end.txt")}
	}
	return recordings
}

// targetLabels are the labels of a target. Prometheus adds them when it scrapes.
var targetLabels = []string{"job", "namespace", "pod"}

// checkExpr fails if an expression cannot be parsed, selects a series or groups by a label that was not recorded, or selects another
// job.
func checkExpr(t *testing.T, recordings map[string]recording, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Clone(targetLabels)
	for _, matchers := range parser.ExtractSelectors(parsed) {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == "job" && m.Matches(job) }) {
			t.Errorf("%s does not select the job %s", matchers, job)
		}
		names = append(names, labelNames(t, recordings, matchers)...)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregation, ok := node.(*parser.AggregateExpr); ok {
			for _, name := range aggregation.Grouping {
				if !slices.Contains(names, name) {
					t.Errorf("no series has the label %s: %s", name, aggregation)
				}
			}
		}
		return nil
	})
}

// labelNames returns the names of the labels of the recorded series that a selector matches. It fails if there is none.
func labelNames(t *testing.T, recordings map[string]recording, matchers []*labels.Matcher) []string {
	t.Helper()
	var names []string
	var own []*labels.Matcher
	for _, matcher := range matchers {
		if matcher.Name == model.MetricNameLabel && matcher.Value == "up" {
			return nil // Prometheus' own.
		}
		if !slices.Contains(targetLabels, matcher.Name) {
			own = append(own, matcher)
		}
	}
	for _, r := range recordings {
		for _, lset := range r.end.labels {
			if matches(lset, own) {
				lset.Range(func(l labels.Label) { names = append(names, l.Name) })
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("no recorded series matches %s", own)
	}
	return names
}

func matches(lset labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(lset.Get(matcher.Name)) {
			return false
		}
	}
	return true
}
