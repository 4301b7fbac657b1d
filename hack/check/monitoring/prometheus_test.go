// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"sigs.k8s.io/yaml"
)

const (
	job       = "sample-controller"
	namespace = "sample-controller"
	interval  = 30 * time.Second // of scrapes and of evaluations
)

// States of an instance that have no recording.
const (
	down = "down" // a target that cannot be scraped
	gone = "gone" // no target
)

// storeResourceVersion is the metric of the resourceVersion of a cache, a gauge.
const storeResourceVersion = "informer_store_resource_version"

// phase is what an instance does for a time.
type phase struct {
	recording string
	duration  time.Duration
	changes   []change
}

// change alters the recorded series that a selector matches.
type change struct {
	selector string
	// increase is how much a counter increases per minute, instead of the recorded rate.
	increase float64
	// once is by how much a counter increases at the start of the phase.
	once float64
	// gauge is the value of a gauge at the start of the phase, which then increases by increase.
	gauge float64
}

// simulation is a Prometheus that scrapes simulated instances and evaluates the rules.
type simulation struct {
	t          *testing.T
	recordings map[string]recording
	storage    *teststorage.TestStorage
	group      *rules.Group
	used       map[string]bool // names of the metrics that the rules use
	scraped    map[string]map[string]labels.Labels
	// firing has the time at which each alert fired first, and active those that are firing.
	firing map[string]time.Duration
	active map[string]bool
}

func newSimulation(t *testing.T, recordings map[string]recording) *simulation {
	t.Helper()
	s := &simulation{
		t: t, recordings: recordings, storage: teststorage.New(t),
		used: map[string]bool{}, scraped: map[string]map[string]labels.Labels{}, firing: map[string]time.Duration{},
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	spec, err := yaml.Marshal(prometheusRule(t).Spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		Context:    t.Context(),
		QueryFunc:  rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 1e6), s.storage),
		Appendable: s.storage,
		Queryable:  s.storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     slog.New(slog.DiscardHandler),
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("got %d groups, want 1: %v", len(groups), errs)
	}
	for _, group := range groups {
		s.group = group
	}
	for _, rule := range s.group.Rules() {
		rule.(*rules.AlertingRule).SetRestored(true)
		for _, matchers := range parser.ExtractSelectors(rule.Query()) {
			for _, matcher := range matchers {
				if matcher.Name == model.MetricNameLabel {
					s.used[matcher.Value] = true
				}
			}
		}
	}
	return s
}

// run scrapes the instances, each of which runs through its phases, and evaluates the rules until the longest one ends.
func (s *simulation) run(pods map[string][]phase) {
	s.t.Helper()
	instances := map[string]*instance{}
	for pod, phases := range pods {
		instances[pod] = &instance{simulation: s, phases: phases}
	}
	for now := time.Duration(0); ; now += interval {
		running := false
		appender := s.storage.Appender(s.t.Context())
		for pod, instance := range instances {
			running = instance.advance() || running
			s.scrape(appender, now, pod, instance)
		}
		if err := appender.Commit(); err != nil {
			s.t.Fatal(err)
		}
		if !running {
			return
		}
		s.evaluate(now)
	}
}

// scrape appends the series of an instance, with the labels of its target, and marks those that it no longer has as stale.
func (s *simulation) scrape(appender storage.Appender, now time.Duration, pod string, i *instance) {
	s.t.Helper()
	series := map[string]labels.Labels{}
	add := func(lset labels.Labels, v float64) {
		builder := labels.NewBuilder(lset)
		for name, value := range map[string]string{"job": job, "namespace": namespace, "pod": pod} {
			builder.Set(name, value)
		}
		lset = builder.Labels()
		series[lset.String()] = lset
		if _, err := appender.Append(0, lset, milliseconds(now), v); err != nil {
			s.t.Fatal(err)
		}
	}
	if state := i.state(); state != gone {
		up := 0.0
		if state != down {
			up = 1
		}
		add(labels.FromStrings(model.MetricNameLabel, "up"), up)
	}
	for key, v := range i.values {
		if lset := i.labels[key]; s.used[lset.Get(model.MetricNameLabel)] {
			add(lset, v)
		}
	}
	for key, lset := range s.scraped[pod] {
		if _, ok := series[key]; !ok {
			if _, err := appender.Append(0, lset, milliseconds(now), math.Float64frombits(value.StaleNaN)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.scraped[pod] = series
}

// evaluate evaluates the rules and records which alerts are firing.
func (s *simulation) evaluate(now time.Duration) {
	s.t.Helper()
	s.group.Eval(s.t.Context(), time.UnixMilli(milliseconds(now)))
	s.active = map[string]bool{}
	for _, rule := range s.group.Rules() {
		if err := rule.LastError(); err != nil {
			s.t.Fatalf("%s: %v", rule.Name(), err)
		}
		for _, alert := range rule.(*rules.AlertingRule).ActiveAlerts() {
			if description := alert.Annotations.Get("description"); strings.Contains(description, "<") {
				s.t.Errorf("%s: the template of the description fails: %s", rule.Name(), description)
			}
			if alert.State != rules.StateFiring {
				continue
			}
			s.active[rule.Name()] = true
			if _, ok := s.firing[rule.Name()]; !ok {
				s.firing[rule.Name()] = now
			}
		}
	}
}

// milliseconds returns the timestamp of a time. It is never 0.
func milliseconds(now time.Duration) int64 { return (now + time.Hour).Milliseconds() }

// instance is a simulated instance of the controller.
type instance struct {
	*simulation
	phases  []phase
	elapsed time.Duration // in the first of the phases
	started bool          // the first of the phases

	values map[string]float64
	labels map[string]labels.Labels
}

// state returns the recording of the current phase, down or gone. The last phase never ends.
func (i *instance) state() string { return i.phases[0].recording }

// advance moves the instance to the next scrape. It returns false once all phases have ended.
func (i *instance) advance() bool {
	i.t.Helper()
	if !i.started {
		i.started = true
		i.startPhase()
		return true
	}
	i.elapsed += interval
	if i.elapsed >= i.phases[0].duration {
		if len(i.phases) == 1 {
			i.increase()
			return false
		}
		i.phases, i.elapsed = i.phases[1:], 0
		i.startPhase()
		return true
	}
	i.increase()
	return true
}

// startPhase takes over the series of a recording. Counters of a process that goes on keep their values.
func (i *instance) startPhase() {
	i.t.Helper()
	if i.state() == down || i.state() == gone {
		i.values, i.labels = nil, nil
		return
	}
	recording, ok := i.recordings[i.state()]
	if !ok {
		i.t.Fatalf("no recording %s", i.state())
	}
	old := i.values
	i.values, i.labels = maps.Clone(recording.end.values), recording.end.labels
	for key := range recording.end.counters {
		if !recording.end.counters[key] {
			continue
		}
		i.values[key] = recording.start.values[key]
		if v, ok := old[key]; ok {
			i.values[key] = v
		}
	}
	i.eachChange(func(key string, c change) {
		if recording.end.counters[key] {
			i.values[key] += c.once
		} else {
			i.values[key] = c.gauge
		}
	})
}

// increase adds to the counters what they increase by between two scrapes.
func (i *instance) increase() {
	i.t.Helper()
	recording, ok := i.recordings[i.state()]
	if !ok {
		return
	}
	increases := map[string]float64{}
	for key, isCounter := range recording.end.counters {
		switch name := i.labels[key].Get(model.MetricNameLabel); {
		case isCounter:
			increases[key] = recording.perSecond(key) * interval.Seconds()
		case name == storeResourceVersion:
			increases[key] = 1 // By a bookmark. The recordings are too short to have one.
		}
	}
	i.eachChange(func(key string, c change) { increases[key] = c.increase * interval.Minutes() })
	for key, increase := range increases {
		i.values[key] += increase
	}
}

// eachChange calls f with all changes of the current phase and each series that they match.
func (i *instance) eachChange(f func(key string, c change)) {
	i.t.Helper()
	for _, c := range i.phases[0].changes {
		matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(c.selector)
		if err != nil {
			i.t.Fatal(err)
		}
		matched := false
		for key, lset := range i.labels {
			if matches(lset, matchers) {
				matched = true
				f(key, c)
			}
		}
		if !matched {
			i.t.Fatalf("the recording %s has no series %s", i.state(), c.selector)
		}
	}
}
