// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/sample-controller/hack/variants"
)

// recordVariantsTo makes TestLabVariant play the variants that docs/lab.html has, and write their steps to files.
var recordVariantsTo = flag.String("record-variants", "", "`directory` to write the steps of the recorded variants to")

// stackFrame is the place in the stack of a panic, with the directory that this machine has it in.
var stackFrame = regexp.MustCompile(`^\t/\S*/([^/ ]+\.go:\d+)`)

// TestScenarios checks that the lab has the acts and faults of all scenarios, with their fields.
func TestScenarios(t *testing.T) {
	all, err := variants.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		for _, step := range v.Scenario.Steps {
			actions := acts
			if step.Fault != "" {
				actions = faultActions
			}
			name := cmp.Or(step.Act, step.Fault)
			if name == "" {
				continue
			}
			a, ok := find(actions, name)
			if !ok {
				t.Errorf("%s: there is no act or fault %q", v.ID, name)
				continue
			}
			fields, err := json.Marshal(step.Fields)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.parse(fields); err != nil {
				t.Errorf("%s: %s: %v", v.ID, name, err)
			}
		}
	}
}

func TestExercisesReferToVariants(t *testing.T) {
	l, _ := newTestLab(t)
	all, err := readExercises()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if _, ok := l.variants[e.Variant]; e.Variant != "" && !ok {
			t.Errorf("the exercise %s refers to the variant %q, which does not exist", e.ID, e.Variant)
		}
	}
}

func TestVariantsWithoutCluster(t *testing.T) {
	_, handler := newTestLab(t)
	for target, want := range map[string]int{"/variants/none": http.StatusNotFound, "/variants/no-done": http.StatusBadRequest} {
		if w := post(handler, target, `{"action":"run"}`); w.Code != want {
			t.Errorf("%s: code %d, want %d: %s", target, w.Code, want, w.Body)
		}
	}
	if w := post(handler, "/variants/no-done", `{"action":"build"}`); w.Code != http.StatusBadRequest {
		t.Errorf("an unknown action: %d %s", w.Code, w.Body)
	}
}

func TestHasValues(t *testing.T) {
	s := Step{Kind: "response", Verb: "patch", Status: http.StatusConflict, Retries: 2}
	for text, want := range map[string]bool{
		`{}`:                               true,
		`{"kind":"response","status":409}`: true,
		`{"status":200}`:                   false,
		`{"retries":2}`:                    true,
		`{"key":"default/a"}`:              false,
		`{"no-such-field":1}`:              false,
	} {
		var values map[string]any
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if got := hasValues(s, values); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// waitPhase waits until a variant is in a phase. Without a variant the phase is empty.
func (l *liveLab) waitPhase(phase string) {
	l.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		l.lab.lock.Lock()
		changes, state := l.lab.changes, variantState{}
		if l.lab.variant != nil {
			state = *l.lab.variant
		}
		l.lab.lock.Unlock()
		switch {
		case state.Phase == phase:
			return
		case state.Phase == failed:
			l.Fatalf("the variant %s has failed: %s", state.ID, state.Error)
		}
		select {
		case <-changes:
		case <-time.After(time.Until(deadline)):
			l.Fatalf("the variant is %q, and not %q", state.Phase, phase)
		}
	}
}

// TestLabVariant plays a scenario on the controller and on a variant, and goes back to the controller.
func TestLabVariant(t *testing.T) {
	l := startLab(t)
	if *recordVariantsTo != "" {
		l.recordVariants(*recordVariantsTo)
		return
	}
	clicked := time.Now()
	l.do("variants/no-done", `{"action":"run"}`)
	if w := post(l.handler, "/acts/create", `{}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "being played") {
		t.Errorf("an act during the scenario: %d %s", w.Code, w.Body)
	}
	l.waitPhase(onVariant)
	l.wait("the start of the variant", func(s Step) bool { return s.Kind == "variant" && s.Result == onVariant })
	l.wait("workers", func(s Step) bool { return s.Kind == "workersStarted" })
	t.Logf("the variant runs %v after the click", time.Since(clicked))
	l.waitPhase(played)

	controller, variant := l.runOf("no-done", onController), l.runOf("no-done", onVariant)
	for name, test := range map[string]struct {
		steps       []Step
		wantPatches int
		wantEnd     string
	}{
		"controller": {controller, 1, "3 replicas, 3 available"},
		"variant":    {variant, 0, "1 replicas, 1 available"},
	} {
		patches, end := 0, ""
		for _, s := range test.steps {
			if s.Kind == "request" && s.Verb == "patch" && s.Resource == deployments {
				patches++
			}
			if s.Kind == "variantEnd" && s.Lane == deployments {
				end = s.What
			}
		}
		if patches != test.wantPatches || end != test.wantEnd {
			t.Errorf("on the %s: %d patches, want %d; %s, want %s", name, patches, test.wantPatches, end, test.wantEnd)
		}
	}

	l.do("variants/no-done", `{"action":"back"}`)
	l.waitPhase("")
	l.waitIdle(3) // The controller sees what the variant has left.
	l.do("acts/scale", `{"replicas":2}`)
	l.waitIdle(2)
}

// runOf returns the steps of the last run of a scenario on the controller or the variant.
func (l *liveLab) runOf(id, on string) []Step {
	l.Helper()
	steps, _ := l.lab.stream.after(0)
	from, to := -1, -1
	for i, s := range steps {
		switch {
		case s.Kind == "variant" && s.Name == id && s.Result == on:
			from, to = i, -1
		case s.Kind == "variantEnd" && s.Name == id && s.Lane == "" && to < 0:
			to = i
		}
	}
	if from < 0 || to < 0 {
		l.Fatalf("the run on the %s is not complete", on)
	}
	return steps[from : to+1]
}

// recordVariants plays the variants that are recorded, and writes their steps to a directory.
func (l *liveLab) recordVariants(dir string) {
	l.Helper()
	for _, id := range recordedVariants {
		l.do("variants/"+id, `{"action":"run"}`)
		l.waitPhase(played)
		controller, variant := l.runOf(id, onController), l.runOf(id, onVariant)
		// With what is between the runs: the Foos and Deployments of the first one are deleted.
		all, _ := l.lab.stream.after(controller[0].Seq - 1)
		steps := slices.Clone(all[:variant[len(variant)-1].Seq-controller[0].Seq+1])
		for i := range steps {
			if steps[i].Source == logged {
				steps[i].Raw = "" // Without the log lines the recordings are a fifth smaller.
				steps[i].What = stackFrame.ReplaceAllString(steps[i].What, "\t$1")
			}
		}
		file, err := os.Create(filepath.Join(dir, id+".jsonl"))
		if err != nil {
			l.Fatal(err)
		}
		defer file.Close()
		if err := writeRecording(file, steps); err != nil {
			l.Fatal(err)
		}
	}
}
