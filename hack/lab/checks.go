// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/sample-controller/pkg/foostatus"
)

// check reports whether an exercise is done, from the steps since it was begun, and what shows it.
type check func(steps []Step) (why string, ok bool)

// checks are the checks of the exercises by ID.
var checks = map[string]check{
	"first-life":  checkFirstLife,
	"level":       checkLevel,
	"tombstone":   checkTombstone,
	"resync":      checkResync,
	"forget":      checkForget,
	"limiters":    checkLimiters,
	"added-again": checkAddedAgain,
	"stale":       checkStale,
	"conflict":    checkConflict,
	"name":        checkName,
	"killed":      checkKilled,
	"deposed":     checkDeposed,
	"garbage":     checkGarbage,
	"permission":  checkPermission,
}

// first returns the index of the first step from an index on that matches, or -1.
func first(steps []Step, from int, matches func(Step) bool) int {
	if from < 0 || from > len(steps) {
		return -1
	}
	i := slices.IndexFunc(steps[from:], matches)
	if i < 0 {
		return -1
	}
	return from + i
}

// inOrder returns the steps that match one after the other, or false if one is missing.
func inOrder(steps []Step, matches ...func(Step) bool) (found []Step, ok bool) {
	at := -1
	for _, match := range matches {
		if at = first(steps, at+1, match); at < 0 {
			return nil, false
		}
		found = append(found, steps[at])
	}
	return found, true
}

// isWrite reports whether a step is a request that changes an object of a lane. Events are none.
func isWrite(s Step) bool {
	return s.Kind == "request" && s.Verb != "get" && s.Verb != "list" && s.Lane != ""
}

func isKind(kind string) func(Step) bool {
	return func(s Step) bool { return s.Kind == kind }
}

func isDone(name string) func(Step) bool {
	return func(s Step) bool { return s.Name == name && (s.Stop == "act" || s.Stop == "fault") && s.Error == "" }
}

func isResponse(verb string, status int) func(Step) bool {
	return func(s Step) bool {
		return s.Kind == "response" && s.Verb == verb && s.Lane == deployments && s.Status == status
	}
}

// completeSync is a sync from its start to its end.
type completeSync struct {
	start, end Step
	requests   []Step // other than events
}

// syncs returns the syncs that have started and ended, in the order of their ends.
func syncs(steps []Step) []completeSync {
	var ended []completeSync
	running := map[string]*completeSync{}
	for _, s := range steps {
		id := s.Pod + " " + s.Key
		current := running[id]
		switch {
		case s.Kind == "syncStart":
			running[id] = &completeSync{start: s}
		case current == nil:
		case s.Kind == "request" && s.Resource != "events":
			current.requests = append(current.requests, s)
		case s.Kind == "syncEnd":
			current.end = s
			ended = append(ended, *current)
			delete(running, id)
		}
	}
	return ended
}

// isIdle reports whether a sync found nothing to do.
func (s completeSync) isIdle() bool { return s.end.Result == "success" && len(s.requests) == 0 }

// checkFirstLife wants a Foo whose Deployment was created and is reported as available, and whose key is not queued again.
func checkFirstLife(steps []Step) (why string, ok bool) {
	created := first(steps, 0, isResponse("create", http.StatusCreated))
	if created < 0 || first(steps, 0, isDone("create")) < 0 {
		return "", false
	}
	key := steps[created].Key
	available := first(steps, created, func(s Step) bool {
		return s.Kind == "response" && s.Resource == foos+"/status" && s.Key == key && s.Status == http.StatusOK &&
			strings.Contains(s.Raw, foostatus.DeploymentAvailable)
	})
	done := first(steps, available, func(s Step) bool {
		return s.Kind == "queueDone" && s.Key == key && s.Merged == "" && !isQueued(steps, s)
	})
	if done < 0 {
		return "", false
	}
	requests := 0
	for _, s := range steps[:done] {
		if s.Kind == "request" && s.Key == key && s.Resource != "events" {
			requests++
		}
	}
	return fmt.Sprintf("%d requests, and then the key is not queued any more", requests), true
}

// isQueued reports whether the key of a sync waits or is delayed at its end.
func isQueued(steps []Step, end Step) bool {
	waits, delayed := false, map[string]bool{} // by priority
	for _, s := range steps {
		if s.Key != end.Key || s.Seq > end.Seq {
			continue
		}
		switch s.Kind {
		case "queueAdd":
			waits = true
		case "queueGet":
			waits = false
		case "queueAddAfter":
			delayed[s.Priority] = true
		case "queueReady":
			waits = true
			delete(delayed, s.Priority)
		}
	}
	return waits || len(delayed) > 0
}

// checkLevel wants more changes while the controller was frozen than writes after it was thawed.
func checkLevel(steps []Step) (why string, ok bool) {
	frozen := first(steps, 0, isKind("podFrozen"))
	thawed := first(steps, frozen, isKind("podThawed"))
	if frozen < 0 || thawed < 0 {
		return "", false
	}
	changes, patches := 0, 0 // Until a sync has nothing to patch.
	for _, s := range steps[frozen:thawed] {
		if isDone("scale")(s) {
			changes++
		}
	}
	for _, s := range syncs(steps[thawed:]) {
		before := patches
		for _, request := range s.requests {
			if request.Verb == "patch" && request.Lane == deployments {
				patches++
			}
		}
		if patches > 0 && patches == before && s.end.Result == "success" {
			return fmt.Sprintf("changes: %d, patches: %d", changes, patches), changes >= 3 && patches < changes
		}
	}
	return "", false
}

// checkTombstone wants a handler that was called with a tombstone.
func checkTombstone(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isDone("cutWatch"), isDone("deleteDeployment"), isDone("healWatch"),
		func(s Step) bool { return s.Kind == "handler" && s.EventType == "tombstone" && s.Lane == deployments })
	if !ok {
		return "", false
	}
	return "a tombstone of Deployment " + found[3].Object + " was delivered", true
}

// checkResync wants a sync after a resync that makes no request.
func checkResync(steps []Step) (why string, ok bool) {
	for i, resync := range steps {
		if resync.Kind != "handler" || resync.EventType != "resync" {
			continue
		}
		following := syncs(steps[i:])
		next := slices.IndexFunc(following, func(s completeSync) bool { return s.start.Key == resync.Key })
		if next >= 0 && following[next].isIdle() {
			return "a resync made no request", true
		}
	}
	return "", false
}

// checkForget wants retries that Forget cleared.
func checkForget(steps []Step) (why string, ok bool) {
	const retries = 5
	at := first(steps, 0, func(s Step) bool { return s.Kind == "queueForget" && s.Retries >= retries })
	if at < 0 {
		return "", false
	}
	return steps[at].What, true
}

// checkLimiters wants many new Foos that were all synced, and none of them delayed by the rate limiter.
func checkLimiters(steps []Step) (why string, ok bool) {
	const enough = 50
	added, synced := map[string]bool{}, map[string]bool{}
	for _, s := range steps {
		switch {
		case s.Kind == "queueAdd" && s.Why == "added":
			added[s.Key] = true
		case s.Kind == "queueAddRateLimited":
			return "", false
		case s.Kind == "syncEnd" && added[s.Key]:
			synced[s.Key] = true
		}
	}
	return fmt.Sprintf("the rate limiter delayed none of %d new Foos", len(added)), len(added) >= enough && len(synced) == len(added)
}

// checkAddedAgain wants a key that is added while it is processed, and queued again by Done.
func checkAddedAgain(steps []Step) (why string, ok bool) {
	slow := first(steps, 0, isDone("delayWrite"))
	for i, s := range steps {
		if slow < 0 || i < slow || s.Kind != "queueAdd" || s.Merged != "processing" || !strings.HasPrefix(s.Why, "spec") {
			continue
		}
		done := first(steps, i, func(d Step) bool { return d.Kind == "queueDone" && d.Key == s.Key && d.Merged == "processing" })
		if done >= 0 {
			return fmt.Sprintf("%s was added while it was processed, and queued again %.1f s later, by Done", s.Key, steps[done].Time.Sub(s.Time).Seconds()), true
		}
	}
	return "", false
}

// checkStale wants a sync that ended because its own write had not come back, and a later one that succeeded.
func checkStale(steps []Step) (why string, ok bool) {
	ended := func(result string) func(Step) bool {
		return func(s Step) bool { return s.Kind == "syncEnd" && s.Result == result }
	}
	found, ok := inOrder(steps, isDone("holdWatch"), isWrite, ended("stale"), isDone("releaseWatch"), ended("success"))
	if !ok {
		return "", false
	}
	return "a sync ended before it read anything: " + found[2].Error, true
}

// checkConflict wants a patch that was rejected because it was computed from an old state.
func checkConflict(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isResponse("patch", http.StatusConflict),
		func(s Step) bool { return s.Kind == "syncEnd" && s.Result == "conflict" }, isResponse("patch", http.StatusOK))
	if !ok || found[0].Name != "" { // A 409 that was injected.
		return "", false
	}
	return fmt.Sprintf("a conflict, and success %.1f s later", found[2].Time.Sub(found[0].Time).Seconds()), true
}

// isNameConflict reports whether a step is the end of a sync that found a Deployment that the Foo does not control.
func isNameConflict(s Step) bool {
	_, message, _ := strings.Cut(foostatus.MessageResourceExists, "%q")
	return s.Kind == "syncEnd" && s.Result == "stalled" && strings.HasSuffix(s.Error, message)
}

// checkName wants a Foo that waited for a name, and got it when that was free.
func checkName(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isNameConflict, isDone("deleteDeployment"),
		func(s Step) bool { return s.Kind == "handler" && s.EventType == "delete" && s.Lane == deployments },
		isResponse("create", http.StatusCreated))
	if !ok || found[2].Object != found[3].Object {
		return "", false
	}
	return fmt.Sprintf("created %.3f s after the event about the deletion", found[3].Time.Sub(found[2].Time).Seconds()), true
}

// checkKilled wants a leader that was killed, and another instance that leads then.
func checkKilled(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isDone("killLeader"), isKind("podExited"), isKind("leader"))
	if !ok || found[2].Pod == found[1].Pod {
		return "", false
	}
	return fmt.Sprintf("%s leads %.1f s after %s was killed", found[2].Pod, found[2].Time.Sub(found[1].Time).Seconds(), found[1].Pod), true
}

// checkDeposed wants a leader that was frozen until another one led, and then ended without a write.
func checkDeposed(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isKind("podFrozen"), isKind("leader"), isKind("podExited"))
	if !ok || found[0].Pod != found[2].Pod || found[1].Pod == found[2].Pod {
		return "", false
	}
	for _, s := range steps {
		if isWrite(s) && s.Pod == found[0].Pod && s.Seq > found[1].Seq {
			return "", false
		}
	}
	return found[0].Pod + " ended without a write after " + found[1].Pod + " led", true
}

// checkGarbage wants a Deployment that someone else than the controller deleted after its Foo.
func checkGarbage(steps []Step) (why string, ok bool) {
	deleted := func(lane string) func(Step) bool {
		return func(s Step) bool { return s.Kind == "stored" && s.EventType == "DELETED" && s.Lane == lane }
	}
	found, ok := inOrder(steps, isDone("delete"), deleted(foos), deleted(deployments))
	if !ok || first(steps, 0, func(s Step) bool { return isWrite(s) && s.Verb == "delete" }) >= 0 {
		return "", false
	}
	return fmt.Sprintf("%s was deleted %.1f s after its Foo, without a request of the controller", found[2].Object, found[2].Time.Sub(found[1].Time).Seconds()), true
}

// checkPermission wants a request that was forbidden, and succeeded once it was permitted.
func checkPermission(steps []Step) (why string, ok bool) {
	found, ok := inOrder(steps, isDone("revoke"), func(s Step) bool { return s.Kind == "response" && s.Status == http.StatusForbidden }, isDone("grant"),
		func(s Step) bool {
			return s.Kind == "response" && s.Lane == deployments && s.Status < 300 && s.Verb != "get"
		})
	if !ok || found[1].Key != found[3].Key || found[1].Verb != found[3].Verb {
		return "", false
	}
	return "forbidden, and done once it was granted", true
}
