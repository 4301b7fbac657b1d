// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
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
func updatesStatus(status int, reason string) Step {
	return Step{Kind: "response", Verb: "update", Resource: foos + "/status", Lane: foos, Status: status, Key: "default/a", Raw: reason}
}
func isDoneWith(key, merged string) Step { return Step{Kind: "queueDone", Key: key, Merged: merged} }
func syncFails(result, err string) Step {
	return Step{Kind: "syncEnd", Key: "default/a", Pod: "a", Result: result, Error: err}
}
func storesDeletion(lane string) Step { return Step{Kind: "stored", EventType: "DELETED", Lane: lane} }

// passing are streams that pass, in which every step is necessary.
var passing = map[string][]Step{
	"first-life": {act("create"), responds("create", 201), updatesStatus(200, "DeploymentAvailable"), isDoneWith("default/a", "")},
	"level": {ofPod("podFrozen", "a"), act("scale"), act("scale"), act("scale"), ofPod("podThawed", "a"),
		syncStarts("default/a"), requests("patch", deployments, "a"), syncEnds("default/a", "success"), syncStarts("default/a"), syncEnds("default/a", "success")},
	"tombstone": {fault("cutWatch"), act("deleteDeployment"), fault("healWatch"), handles(deployments, "tombstone")},
	"resync":    {handles(foos, "resync"), syncStarts("default/a"), syncEnds("default/a", "success")},
	"forget":    {Step{Kind: "queueForget", Retries: 5, What: "Forget cleared 5 retries"}},
	"added-again": {fault("delayWrite"), Step{Kind: "queueAdd", Key: "default/a", Merged: "processing", Why: "spec changed"},
		Step{Kind: "queueDone", Key: "default/a", Merged: "processing"}},
	"stale":      {fault("holdWatch"), requests("patch", deployments, "a"), syncEnds("default/a", "stale"), fault("releaseWatch"), syncEnds("default/a", "success")},
	"conflict":   {responds("patch", 409), syncEnds("default/a", "conflict"), responds("patch", 200)},
	"name":       {syncFails("stalled", `Resource "a" already exists and is not managed by Foo`), act("deleteDeployment"), handles(deployments, "delete"), responds("create", 201)},
	"killed":     {fault("killLeader"), ofPod("podExited", "a"), ofPod("leader", "b")},
	"deposed":    {ofPod("podFrozen", "a"), ofPod("leader", "b"), ofPod("podExited", "a")},
	"garbage":    {act("delete"), storesDeletion(foos), storesDeletion(deployments)},
	"permission": {fault("revoke"), responds("create", 403), fault("grant"), responds("create", 201)},
	"limiters": func() (steps []Step) {
		for n := range 50 {
			key := fmt.Sprint("default/many-", n)
			steps = append(steps, Step{Kind: "queueAdd", Key: key, Why: "added"}, syncEnds(key, "success"))
		}
		return steps
	}(),
}

// failing are streams that differ from those that pass in one thing that must not be, or must not be so.
var failing = map[string]map[string][]Step{
	"first-life": {
		"the key is delayed":         slices.Insert(slices.Clone(passing["first-life"]), 3, Step{Kind: "queueAddAfter", Key: "default/a"}),
		"the key waits":              slices.Insert(slices.Clone(passing["first-life"]), 1, Step{Kind: "queueAdd", Key: "default/a"}),
		"Done queues it again":       replaced("first-life", 3, isDoneWith("default/a", "processing")),
		"another Foo is left idle":   replaced("first-life", 3, isDoneWith("default/b", "")),
		"it is not available":        replaced("first-life", 2, updatesStatus(200, "DeploymentProgressing")),
		"the status is not stored":   replaced("first-life", 2, updatesStatus(500, "DeploymentAvailable")),
		"create fails":               replaced("first-life", 0, Step{Stop: "act", Name: "create", Error: "exists"}),
		"the Deployment comes later": {act("create"), updatesStatus(200, "DeploymentAvailable"), responds("create", 201), isDoneWith("default/a", "")},
	},
	"level": {
		"a patch for each change":      slices.Insert(slices.Clone(passing["level"]), 7, requests("patch", deployments, "a"), requests("patch", deployments, "a")),
		"one change before the freeze": replaced("level", 0, act("scale"), ofPod("podFrozen", "a")),
		"one change after the thaw":    replaced("level", 3, ofPod("podThawed", "a"), act("scale")),
		"the patch before the freeze":  append(slices.Clone(passing["level"][5:]), passing["level"][:5]...),
		"a patch of something else":    replaced("level", 6, requests("patch", foos, "a")),
		"no sync has nothing to patch": replaced("level", 9, syncEnds("default/a", "error")),
	},
	"tombstone": {
		"an event":                    replaced("tombstone", 3, handles(deployments, "delete")),
		"a tombstone of the Foo":      replaced("tombstone", 3, handles(foos, "tombstone")),
		"the deletion before the cut": {act("deleteDeployment"), fault("cutWatch"), fault("healWatch"), handles(deployments, "tombstone")},
	},
	"resync": {
		"a request":           slices.Insert(slices.Clone(passing["resync"]), 2, requests("get", foos, "a")),
		"a failure":           replaced("resync", 2, syncEnds("default/a", "stale")),
		"a sync of another":   {handles(foos, "resync"), syncStarts("default/b"), syncEnds("default/b", "success")},
		"an update":           replaced("resync", 0, handles(foos, "update")),
		"the sync was before": {syncStarts("default/a"), syncEnds("default/a", "success"), handles(foos, "resync")},
	},
	"forget":   {"too few": {Step{Kind: "queueForget", Retries: 4}}},
	"limiters": {"one is delayed": append([]Step{{Kind: "queueAddRateLimited", Key: "default/many-1"}}, passing["limiters"]...)},
	"added-again": {
		"a rollout":                replaced("added-again", 1, Step{Kind: "queueAdd", Key: "default/a", Merged: "processing", Why: "rollout"}),
		"it waits":                 replaced("added-again", 1, Step{Kind: "queueAdd", Key: "default/a", Merged: "waiting", Why: "spec changed"}),
		"Done of another":          replaced("added-again", 2, Step{Kind: "queueDone", Key: "default/b", Merged: "processing"}),
		"Done queues nothing":      replaced("added-again", 2, Step{Kind: "queueDone", Key: "default/a"}),
		"before the write is slow": {passing["added-again"][1], fault("delayWrite"), passing["added-again"][2]},
	},
	"stale": {
		"stale to the end":    replaced("stale", 4, syncEnds("default/a", "stale")),
		"a failure":           replaced("stale", 2, syncEnds("default/a", "error")),
		"only reads":          replaced("stale", 1, requests("get", deployments, "a")),
		"success when held":   {fault("holdWatch"), requests("patch", deployments, "a"), syncEnds("default/a", "stale"), syncEnds("default/a", "success"), fault("releaseWatch")},
		"an event is written": replaced("stale", 1, Step{Kind: "request", Verb: "create", Resource: "events"}),
	},
	"conflict": {
		"it was injected":          replaced("conflict", 0, Step{Kind: "response", Verb: "patch", Lane: deployments, Status: 409, Name: "failWrite"}),
		"the name is taken":        replaced("conflict", 0, responds("create", 409)),
		"it is about the status":   replaced("conflict", 0, Step{Kind: "response", Verb: "patch", Lane: foos, Status: 409}),
		"the sync counts as error": replaced("conflict", 1, syncEnds("default/a", "error")),
		"no patch succeeds":        replaced("conflict", 2, responds("patch", 409)),
	},
	"name": {
		"another Deployment is created": replaced("name", 3, Step{Kind: "response", Verb: "create", Lane: deployments, Status: 201, Object: "default/other"}),
		"the Foo is deleted":            replaced("name", 2, handles(foos, "delete")),
		"it fails again":                replaced("name", 3, responds("create", 409)),
		"another rejection":             replaced("name", 0, syncFails("stalled", "denied by a webhook")),
		"another failure":               replaced("name", 0, syncFails("error", `Resource "a" already exists and is not managed by Foo`)),
		"no handler is called for it":   replaced("name", 2, handles(deployments, "update")),
	},
	"killed": {"it leads again itself": replaced("killed", 2, ofPod("leader", "a"))},
	"deposed": {
		"it writes":             slices.Insert(slices.Clone(passing["deposed"]), 2, requests("patch", deployments, "a")),
		"the new leader ends":   replaced("deposed", 2, ofPod("podExited", "b")),
		"nobody else has led":   replaced("deposed", 1, ofPod("leader", "a")),
		"the standby is frozen": {ofPod("podFrozen", "b"), ofPod("leader", "b"), ofPod("podExited", "a")},
	},
	"garbage": {
		"the controller deletes it":  slices.Insert(slices.Clone(passing["garbage"]), 2, requests("delete", deployments, "a")),
		"it is deleted before":       {act("delete"), storesDeletion(deployments), storesDeletion(foos)},
		"it is changed, not deleted": replaced("garbage", 2, Step{Kind: "stored", EventType: "MODIFIED", Lane: deployments}),
	},
	"permission": {
		"another verb succeeds": replaced("permission", 3, responds("patch", 200)),
		"another Foo succeeds":  replaced("permission", 3, Step{Kind: "response", Verb: "create", Lane: deployments, Status: 201, Key: "default/b"}),
		"another error":         replaced("permission", 1, responds("create", 500)),
		"before it is granted":  {fault("revoke"), responds("create", 403), responds("create", 201), fault("grant")},
		"forbidden again":       replaced("permission", 3, responds("create", 403)),
	},
}

// replaced returns the stream that passes with other steps from an index on, as many as are given.
func replaced(id string, at int, steps ...Step) []Step {
	return slices.Replace(slices.Clone(passing[id]), at, at+len(steps), steps...)
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
	content, err := os.ReadFile("page/exercises.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ ID string }
	if err := json.Unmarshal(content, &all); err != nil {
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
			var among []Step
			for _, s := range passing[e.ID] {
				among = append(among, s, Step{Kind: "request", Verb: "create", Resource: "events", Key: "default/a", Pod: "a"}, responds("get", 200))
			}
			if _, ok := check(numbered(among)); !ok {
				t.Error("the check does not pass if there are events and live reads")
			}
			for name, steps := range failing[e.ID] {
				if why, ok := check(numbered(steps)); ok {
					t.Errorf("%s: the check passes: %s", name, why)
				}
			}
		})
	}
}

func TestExercises(t *testing.T) {
	e := newExercises()
	steps := numbered(passing["forget"])
	if passed := e.check(steps); len(passed) != 0 {
		t.Errorf("an exercise that was not started has passed: %v", passed)
	}
	if err := e.set("none", true); !errors.Is(err, errInvalid) {
		t.Errorf("an exercise that does not exist: %v", err)
	}
	if err := errors.Join(e.set("forget", true), e.set("killed", true)); err != nil {
		t.Error(err)
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
