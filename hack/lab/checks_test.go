// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Steps for streams.
func did(stop, name string) Step   { return Step{Stop: stop, Kind: stop, Name: name} }
func act(name string) Step         { return did("act", name) }
func fault(name string) Step       { return did("fault", name) }
func ofPod(kind, name string) Step { return Step{Stop: "fault", Kind: kind, Pod: name} }
func syncStarts(key string) Step   { return Step{Kind: "syncStart", Key: key, Pod: "a"} }
func syncEnds(key, result string) Step {
	return Step{Kind: "syncEnd", Key: key, Pod: "a", Result: result}
}
func handles(lane, eventType string) Step {
	return Step{Kind: "handler", Lane: lane, EventType: eventType, Key: "default/a", Object: "default/a"}
}
func requests(verb, lane, name string) Step {
	return Step{Kind: "request", Verb: verb, Lane: lane, Resource: lane, Key: "default/a", Pod: name}
}
func responds(verb string, status int) Step {
	return Step{Kind: "response", Verb: verb, Lane: deployments, Status: status, Key: "default/a", Object: "default/a"}
}
func storesDeletion(lane string) Step { return Step{Kind: "stored", EventType: "DELETED", Lane: lane} }

// passing are streams that pass, in which every step is necessary.
var passing = map[string][]Step{
	"first-life": {act("create"), syncStarts("default/a"), requests("create", deployments, "a"), responds("create", 201),
		syncEnds("default/a", "success"), syncStarts("default/a"), syncEnds("default/a", "success")},
	"level": {ofPod("podFrozen", "a"), act("scale"), act("scale"), act("scale"), ofPod("podThawed", "a"),
		syncStarts("default/a"), requests("patch", deployments, "a"), syncEnds("default/a", "success"), syncStarts("default/a"), syncEnds("default/a", "success")},
	"tombstone": {fault("cutWatch"), act("deleteDeployment"), fault("healWatch"), handles(deployments, "tombstone")},
	"resync":    {handles(foos, "resync"), syncStarts("default/a"), syncEnds("default/a", "success")},
	"forget":    {Step{Kind: "queueForget", Retries: 5, What: "Forget cleared 5 retries"}},
	"added-again": {fault("delayWrite"), Step{Kind: "queueAdd", Key: "default/a", Merged: "processing", Why: "spec changed"},
		Step{Kind: "queueDone", Key: "default/a", Merged: "processing"}},
	"stale":    {fault("holdWatch"), requests("patch", deployments, "a"), syncEnds("default/a", "stale"), fault("releaseWatch"), syncEnds("default/a", "success")},
	"conflict": {responds("patch", 409), syncEnds("default/a", "conflict"), responds("patch", 200)},
	"name":     {Step{Kind: "sync", Result: "conflict"}, act("deleteDeployment"), handles(deployments, "delete"), responds("create", 201)},
	"killed":   {fault("killLeader"), ofPod("podExited", "a"), ofPod("leader", "b")},
	"deposed":  {ofPod("podFrozen", "a"), ofPod("leader", "b"), ofPod("podExited", "a")},
	"garbage":  {act("delete"), storesDeletion(foos), storesDeletion(deployments)},
	"right":    {fault("revoke"), responds("create", 403), fault("grant"), responds("create", 201)},
	"limiters": func() (steps []Step) {
		for n := range 50 {
			key := fmt.Sprint("default/many-", n)
			steps = append(steps, Step{Kind: "queueAdd", Key: key, Why: "added"}, syncEnds(key, "success"))
		}
		return steps
	}(),
}

// failing are streams with all that is necessary, and something that must not be.
var failing = map[string][]Step{
	"first-life": slices.Insert(slices.Clone(passing["first-life"]), 4, Step{Kind: "queueAddAfter", Key: "default/a"}),
	"level": append(slices.Clone(passing["level"][:7]), append([]Step{requests("patch", deployments, "a"), requests("patch", deployments, "a")},
		passing["level"][7:]...)...),
	"tombstone": {fault("cutWatch"), act("deleteDeployment"), fault("healWatch"), handles(deployments, "delete")},
	"resync":    {handles(foos, "resync"), syncStarts("default/a"), requests("get", foos, "a"), syncEnds("default/a", "success")},
	"forget":    {Step{Kind: "queueForget", Retries: 4}},
	"added-again": {fault("delayWrite"), Step{Kind: "queueAdd", Key: "default/a", Merged: "processing", Why: "rollout"},
		Step{Kind: "queueDone", Key: "default/a", Merged: "processing"}},
	"stale":    {fault("holdWatch"), syncEnds("default/a", "stale"), fault("releaseWatch"), syncEnds("default/a", "stale")},
	"conflict": {Step{Kind: "response", Verb: "patch", Lane: deployments, Status: 409, Name: "failWrite"}, syncEnds("default/a", "conflict"), responds("patch", 200)},
	"name": {Step{Kind: "sync", Result: "conflict"}, act("deleteDeployment"), handles(deployments, "delete"),
		Step{Kind: "response", Verb: "create", Lane: deployments, Status: 201, Object: "default/other"}},
	"killed":   {fault("killLeader"), ofPod("podExited", "a"), ofPod("leader", "a")},
	"deposed":  {ofPod("podFrozen", "a"), ofPod("leader", "b"), requests("patch", deployments, "a"), ofPod("podExited", "a")},
	"garbage":  {act("delete"), storesDeletion(foos), requests("delete", deployments, "a"), storesDeletion(deployments)},
	"right":    {fault("revoke"), responds("create", 403), fault("grant"), responds("patch", 200)},
	"limiters": append([]Step{{Kind: "queueAddRateLimited", Key: "default/many-1"}}, passing["limiters"]...),
}

// numbered returns the steps with numbers and times.
func numbered(steps []Step) []Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Seq, steps[i].Time = int64(i+1), start.Add(time.Duration(i)*time.Millisecond)
	}
	return steps
}

func TestChecks(t *testing.T) {
	all, err := readExercises()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(checks) {
		t.Errorf("there are %d exercises and %d checks", len(all), len(checks))
	}
	for _, e := range all {
		t.Run(e.ID, func(t *testing.T) {
			check := checks[e.ID]
			if check == nil || len(passing[e.ID]) == 0 || len(failing[e.ID]) == 0 {
				t.Fatal("there is no check, or no test of it")
			}
			steps := numbered(passing[e.ID])
			why, ok := check(steps)
			if !ok || why == "" {
				t.Fatalf("the check does not pass, or does not say why: %q", why)
			}
			for end := range steps {
				if _, ok := check(steps[:end]); ok {
					t.Errorf("the check passes after %d of %d steps already", end, len(steps))
				}
			}
			for i, s := range steps {
				if _, ok := check(slices.Delete(slices.Clone(steps), i, i+1)); ok {
					t.Errorf("the check passes without step %d: %+v", i, s)
				}
			}
			if why, ok := check(numbered(failing[e.ID])); ok {
				t.Errorf("the check passes with what must not be: %s", why)
			}
		})
	}
}

func TestExercises(t *testing.T) {
	all, err := readExercises()
	if err != nil {
		t.Fatal(err)
	}
	glossary, err := os.ReadFile(filepath.Join(root, "docs/controller-client-go.md"))
	if err != nil {
		t.Fatal(err)
	}
	anchors := []string{""}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(glossary), -1) {
		anchors = append(anchors, "#"+strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	for _, e := range all {
		if !slices.Contains(anchors, e.Misunderstanding) {
			t.Errorf("%s: docs/controller-client-go.md has no %s", e.ID, e.Misunderstanding)
		}
		hasChoices := len(e.Choices) > 1 && e.Answer >= 0 && e.Answer < len(e.Choices)
		if hasChoices == (e.Number != nil) || e.Title == "" || e.Task == "" || e.Question == "" || e.Explanation == "" {
			t.Errorf("%s is not complete", e.ID)
		}
	}
	e, err := newExercises()
	if err != nil {
		t.Fatal(err)
	}
	steps := numbered(passing["forget"])
	if passed := e.check(steps); len(passed) != 0 {
		t.Errorf("an exercise that was not started has passed: %v", passed)
	}
	if e.set("none", true) || !e.set("forget", true) || !e.set("killed", true) {
		t.Error("set does not find the exercises")
	}
	passed := e.check(steps)
	if len(passed) != 1 || passed[0].Name != "forget" || passed[0].What != "Forget cleared 5 retries" {
		t.Errorf("passed are %v", passed)
	}
	if passed := e.check(steps); len(passed) != 0 {
		t.Errorf("passed again are %v", passed)
	}
	i := slices.IndexFunc(e.state(), func(s exerciseState) bool { return s.ID == "forget" })
	if s := e.state()[i]; !s.Passed || s.Active || s.Seq != 1 {
		t.Errorf("the state is %+v", s)
	}
}
