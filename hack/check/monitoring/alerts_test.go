// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// prometheusRule returns the rules of the component.
func prometheusRule(t *testing.T) *monitoringv1.PrometheusRule {
	t.Helper()
	content, err := os.ReadFile(root + "/artifacts/components/alerts/prometheus-rule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(content, &rule); err != nil {
		t.Fatal(err)
	}
	return &rule
}

// alerts returns all alerts of the component.
func alerts(t *testing.T) []monitoringv1.Rule {
	t.Helper()
	var alerts []monitoringv1.Rule
	for _, group := range prometheusRule(t).Spec.Groups {
		alerts = append(alerts, group.Rules...)
	}
	return alerts
}

const (
	// settled is the time before the fault of a scenario, longer than all windows of the rules.
	settled = time.Hour
	// observed is how long a fault lasts, unless the scenario says something else.
	observed = 2 * time.Hour
)

var (
	leading = phase{recording: "healthy-leader", duration: settled}
	standby = phase{recording: "healthy-standby", duration: settled}
	// rejected keeps the recorded rate of rejected requests, which is that of the first seconds, from going on.
	rejected = change{selector: `rest_client_requests_total{code="500"}`}
)

func TestAlerts(t *testing.T) {
	recordings := readRecordings(t)
	fired := map[string]bool{}
	for name, scenario := range map[string]struct {
		pods map[string][]phase
		// want has the alerts that fire, and how long after the fault. No others fire.
		want map[string]time.Duration
		// lasting has those of them that still fire at the end.
		lasting []string
	}{
		"healthy": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-leader", duration: observed}},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
		},
		"no Pods": {
			pods:    map[string][]phase{"a": {leading, {recording: gone, duration: observed}}},
			want:    map[string]time.Duration{"FooControllerDown": 5 * time.Minute},
			lasting: []string{"FooControllerDown"},
		},
		"no Pod can be scraped": {
			pods: map[string][]phase{
				"a": {leading, {recording: down, duration: observed}},
				"b": {standby, {recording: down, duration: observed}},
			},
			want:    map[string]time.Duration{"FooControllerDown": 5 * time.Minute},
			lasting: []string{"FooControllerDown"},
		},
		"the standby is down": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-leader", duration: observed}},
				"b": {standby, {recording: down, duration: observed}},
			},
		},
		"the Lease cannot be acquired": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-standby", duration: observed}},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooControllerNoLeader": 2 * time.Minute},
			lasting: []string{"FooControllerNoLeader"},
		},
		"failover": {
			pods: map[string][]phase{
				"a": {leading, {recording: down, duration: time.Minute}, standby},
				"b": {standby, {recording: "healthy-standby", duration: time.Minute}, leading},
			},
		},
		"rollout": {
			pods: map[string][]phase{
				"a":     {leading, {recording: gone, duration: observed}},
				"b":     {standby, {recording: "healthy-leader", duration: time.Minute}, {recording: gone, duration: time.Hour}},
				"new-a": {{recording: gone, duration: settled}, {recording: "healthy-standby", duration: time.Minute}, leading},
				"new-b": {{recording: gone, duration: settled + time.Minute}, standby},
			},
		},
		"failover every 10 minutes": {
			pods: map[string][]phase{
				"a": append([]phase{leading}, alternating("healthy-standby", "healthy-leader", 10*time.Minute, 6)...),
				"b": append([]phase{standby}, alternating("healthy-leader", "healthy-standby", 10*time.Minute, 6)...),
			},
			want:    map[string]time.Duration{"FooControllerLeaderChanges": 25 * time.Minute},
			lasting: []string{"FooControllerLeaderChanges"},
		},
		// The leader exits after 10 s, is started again and again, and finds no API server.
		"the API server is down": {
			pods: map[string][]phase{
				"a": {leading, unchanged("outage-standby", ".*", observed)},
				"b": {standby, unchanged("outage-standby", ".*", observed)},
			},
			want: map[string]time.Duration{
				"FooControllerNoLeader":  2 * time.Minute,
				"FooControllerAPIErrors": 10*time.Minute + interval,
				"FooCacheStale":          29*time.Minute + 30*time.Second,
			},
			lasting: []string{"FooControllerNoLeader", "FooControllerAPIErrors", "FooCacheStale"},
		},
		"the API server is down for 5 s": {
			pods: map[string][]phase{
				"a": {leading, {recording: "outage-leader", duration: interval}, leading},
				"b": {standby, {recording: "outage-standby", duration: interval}, standby},
			},
		},
		// Some requests fail, but the Lease is renewed.
		"the API server is overloaded": {
			pods: map[string][]phase{
				"a": {leading, {recording: "outage-leader", duration: observed, changes: []change{
					{selector: `rest_client_requests_total{code="<error>"}`, increase: 20},
				}}},
				"b": {standby, {recording: "outage-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooControllerAPIErrors": 10*time.Minute + interval},
			lasting: []string{"FooControllerAPIErrors"},
		},
		"the cache of Foos is stale": {
			pods: map[string][]phase{
				"a": {leading, unchanged("healthy-leader", "foos", observed)},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooCacheStale": 29*time.Minute + 30*time.Second},
			lasting: []string{"FooCacheStale"},
		},
		"the cache of a standby is stale for half an hour": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-leader", duration: observed}},
				"b": {standby, unchanged("healthy-standby", "deployments", 32*time.Minute), standby},
			},
			want: map[string]time.Duration{"FooCacheStale": 29*time.Minute + 30*time.Second},
		},
		// etcd reports its revision at the latest 22 minutes after a change, and a bookmark comes within a minute.
		"nothing changes in the cluster": {
			pods: map[string][]phase{
				"a":     append([]phase{leading}, quiet("healthy-leader", 23*time.Minute, 5)...),
				"b":     {standby, {recording: gone, duration: observed}},
				"new-b": append([]phase{{recording: gone, duration: settled}}, quiet("healthy-standby", 23*time.Minute, 5)...),
			},
		},
		"a webhook fails for 10 minutes": {
			pods: map[string][]phase{
				"a": {leading, {recording: "failing-leader", duration: interval}, retried("failing-leader", "error", 10*time.Minute, rejected), leading},
				"b": {standby, {recording: "failing-standby", duration: observed}},
			},
		},
		// Its Foos are DeploymentFailed, and not Stalled.
		"a webhook fails for 30 minutes": {
			pods: map[string][]phase{
				"a": {leading, {recording: "failing-leader", duration: interval}, retried("failing-leader", "error", 30*time.Minute, rejected), leading},
				"b": {standby, {recording: "failing-standby", duration: observed}},
			},
			want: map[string]time.Duration{"FooSyncsFailing": 40*time.Minute + interval},
		},
		"a webhook fails": {
			pods: map[string][]phase{
				"a": {leading, {recording: "failing-leader", duration: interval}, retried("failing-leader", "error", observed, rejected)},
				"b": {standby, {recording: "failing-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooSyncsFailing": 40*time.Minute + interval},
			lasting: []string{"FooSyncsFailing"},
		},
		"a Foo is stalled for 30 minutes": {
			pods: map[string][]phase{
				"a": {leading, {recording: "stalled-leader", duration: interval}, retried("stalled-leader", "stalled", 30*time.Minute), leading},
				"b": {standby, {recording: "stalled-standby", duration: observed}},
			},
		},
		"a Foo is stalled": {
			pods: map[string][]phase{
				"a": {leading, {recording: "stalled-leader", duration: interval}, retried("stalled-leader", "stalled", observed)},
				"b": {standby, {recording: "stalled-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FoosStalled": time.Hour + interval},
			lasting: []string{"FoosStalled"},
		},
		"a single panic": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-leader", duration: observed, changes: []change{
					{selector: "sample_controller_sync_panics_total", once: 1},
				}}},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
			want: map[string]time.Duration{"FooSyncPanics": time.Minute},
		},
		"a sync hangs": {
			pods: map[string][]phase{
				"a": {leading, {recording: "healthy-leader", duration: observed, changes: []change{
					{selector: "workqueue_longest_running_processor_seconds", gauge: 1e4},
				}}},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooSyncStuck": 5 * time.Minute},
			lasting: []string{"FooSyncStuck"},
		},
		"a sync takes 5 minutes": {
			pods: map[string][]phase{
				"a": {
					leading,
					{recording: "healthy-leader", duration: 5 * time.Minute, changes: []change{
						{selector: "workqueue_longest_running_processor_seconds", gauge: 300},
					}},
					leading,
				},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
		},
		"all keys wait for more than 10 s": {
			pods: map[string][]phase{
				"a": {leading, waiting(observed)},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
			want:    map[string]time.Duration{"FooQueueSlow": 15*time.Minute + interval},
			lasting: []string{"FooQueueSlow"},
		},
		"all keys wait for more than 10 s after a failover": {
			pods: map[string][]phase{
				"a": {leading, waiting(5 * time.Minute), leading},
				"b": {standby, {recording: "healthy-standby", duration: observed}},
			},
		},
	} {
		for alert := range scenario.want {
			fired[alert] = true
		}
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, recordings)
			s.run(scenario.pods)
			for alert, at := range s.firing {
				if want, ok := scenario.want[alert]; !ok {
					t.Errorf("%s fires", alert)
				} else if after := at - settled; after < want || after > want+2*interval {
					t.Errorf("%s fires %s after the fault, want %s", alert, after, want)
				}
			}
			for alert := range scenario.want {
				if _, ok := s.firing[alert]; !ok {
					t.Errorf("%s does not fire", alert)
				}
			}
			slices.Sort(scenario.lasting)
			if lasting := slices.Sorted(maps.Keys(s.active)); !slices.Equal(lasting, scenario.lasting) {
				t.Errorf("at the end %q fire, want %q", lasting, scenario.lasting)
			}
		})
	}
	for _, alert := range alerts(t) {
		if !fired[alert.Alert] {
			t.Errorf("no scenario lets %s fire", alert.Alert)
		}
	}
}

// alternating returns phases that alternate between two recordings.
func alternating(first, second string, duration time.Duration, times int) []phase {
	var phases []phase
	for range times {
		phases = append(phases, phase{recording: first, duration: duration}, phase{recording: second, duration: duration})
	}
	return phases
}

// retried returns a phase in which one Foo is retried every 1000 s, the longest retry delay, with the same result each time.
func retried(recording, result string, duration time.Duration, others ...change) phase {
	return phase{recording: recording, duration: duration, changes: append(others,
		change{selector: `sample_controller_syncs_total{result="` + result + `"}`, increase: time.Minute.Seconds() / 1000})}
}

// unchanged returns a phase in which the resourceVersion of a cache, or of all that the regular expression matches, does not change.
func unchanged(recording, cache string, duration time.Duration) phase {
	return phase{recording: recording, duration: duration, changes: []change{
		{selector: storeResourceVersion + `{name=~"` + cache + `"}`, gauge: 1},
	}}
}

// quiet returns phases between which the resourceVersions of the caches change.
func quiet(recording string, duration time.Duration, times int) []phase {
	var phases []phase
	for n := range times {
		phase := unchanged(recording, ".*", duration)
		phase.changes[0].gauge = float64(n + 1)
		phases = append(phases, phase)
	}
	return phases
}

// waiting returns a phase in which no key is taken from the workqueue within 10 s.
func waiting(duration time.Duration) phase {
	return phase{recording: "healthy-leader", duration: duration, changes: []change{
		{selector: `workqueue_queue_duration_seconds_bucket{name="foos", le=~"[0-9.e-]+"}`},
		{selector: `workqueue_queue_duration_seconds_bucket{name="foos", le="+Inf"}`, increase: 40},
	}}
}

func TestAlertsSelectRecordedMetrics(t *testing.T) {
	recordings := readRecordings(t)
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			checkExpr(t, recordings, alert.Expr.String())
		})
	}
}

// Each alert has what a receiver needs: how urgent it is, what has happened, and a section that says what to do.
func TestAlertsHaveRunbooks(t *testing.T) {
	const doc = "docs/operate/runbooks.md"
	content, err := os.ReadFile(root + "/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	notInAnchor := regexp.MustCompile(`[^a-z0-9 -]`)
	sections := map[string]string{} // by anchor
	anchor := ""
	for line := range strings.Lines(string(content)) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchor = strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
		}
		sections[anchor] += line
	}
	for _, alert := range alerts(t) {
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", alert.Alert, severity)
		}
		if alert.For == nil || alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s lacks for, a summary or a description", alert.Alert)
		}
		path, anchor, _ := strings.Cut(alert.Annotations["runbook"], "#")
		if path != doc || !strings.Contains(sections[anchor], alert.Alert) {
			t.Errorf("%s: no section %s that names the alert", alert.Alert, alert.Annotations["runbook"])
		}
	}
}
