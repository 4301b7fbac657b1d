// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

const (
	isPatched    = `step.kind === "response" && step.verb === "patch" && step.resource === "deployments" && step.status === 200`
	isWatchEnded = `step.kind === "watchEnd"`
)

// scale scales the Foo a.
func (p *page) scale(replicas string) {
	p.Helper()
	p.do("acts", "scale", map[string]string{"name": "a", "replicas": replicas})
}

// on does an act to the object a, and fault a fault with a field.
func (p *page) on(act string) {
	p.Helper()
	p.do("acts", act, map[string]string{"name": "a"})
}

func (p *page) fault(name string, field ...string) {
	p.Helper()
	fields := map[string]string{}
	if len(field) > 0 {
		fields[field[0]] = field[1]
	}
	p.do("faults", name, fields)
}

// runTwo runs two replicas, and returns the one that leads.
func (p *page) runTwo() (leader string) {
	p.Helper()
	p.fault("replicas", "count", "2")
	p.receive("a leader", `step.kind === "leader"`)
	p.receive("a standby", `step.kind === "notLeader" && lab.player.steps.findLast((other) => other.kind === "leader").pod !== step.pod`)
	p.catchUp()
	return p.get("lab.shownPod").(string)
}

// checkPicture fails unless the picture shows the caches as the API server has the objects, an empty queue, and no fault.
func (p *page) checkPicture() {
	p.Helper()
	p.catchUp()
	// A sync with a stale cache, and a Foo that is stalled, add the key with a delay.
	p.eventually("that nothing happens any more, and no key is delayed", `(() => {
		const { player } = lab, last = player.steps.findLast((step) => step.stop !== "reflector" && step.kind !== "lease");
		player.seek(player.steps.length);
		return lab.cluster.now() - last.at > 1500 && lab.state.pods.get(lab.shownPod).delayed.size === 0;
	})()`)
	got := p.get(`(async () => {
		const labState = await import("/state.js"), pod = lab.state.pods.get(lab.shownPod), objects = (map) => JSON.stringify([...map].sort());
		return labState.lanes.filter((lane) => objects(pod.lanes[lane].objects) !== objects(lab.state.stored[lane]) || labState.isStale(lab.state, pod, lane))
			.concat(["waiting", "delayed", "processing", "retries", "open"].filter((field) => pod[field].size > 0)
			.map((field) => field + " " + JSON.stringify([...pod[field]])), [...lab.state.faults.keys()], labState.loops(lab.state)
			.filter((loop) => loop.pod === pod.name && !loop.event).map((loop) => "the event of " + loop.verb + " " + loop.resourceVersion)).join();
	})()`)
	if got != "" {
		p.Errorf("in the picture are left over, or differ from what the API server has: %v", got)
	}
}

// TestExercises does each exercise as its task says, answers its question, and waits until the lab has seen it.
func TestExercises(t *testing.T) {
	tasks := map[string]func(p *page){
		"first-life": func(p *page) { p.on("create") },
		"level": func(p *page) {
			p.fault("freeze", "pod", "a")
			// The first change is often patched before the next one is read. Six are enough for at least two to be covered by one patch.
			for _, replicas := range []string{"2", "4", "3", "5", "4", "3"} {
				p.scale(replicas)
			}
			p.receive("the last event", `step.kind === "watchEvent" && step.resourceVersion === lab.player.steps.findLast((step) => step.kind === "stored").resourceVersion`)
			p.catchUp()
			if pods := p.text("#pods"); pods != "pod a: ❄ frozen" {
				p.Errorf("the pods: %s", pods)
			}
			if fifo := p.text("#fifo-foos"); !contains(fifo, "empty") || !contains(p.text("#light-foos"), "STALE") {
				p.Errorf("a frozen process has read an event: %s", fifo)
			}
			p.fault("thaw", "pod", "a")
		},
		"tombstone": func(p *page) {
			p.fault("cutWatch", "lane", "deployments")
			p.receive("the end of the watch", isWatchEnded)
			p.catchUp()
			if reflector := p.text("#reflector-deployments"); !contains(reflector, "watch cut") {
				p.Errorf("the Reflector of Deployments: %s", reflector)
			}
			p.on("deleteDeployment")
			p.receive("the deletion", `step.kind === "stored" && step.eventType === "DELETED"`)
			p.fault("healWatch", "relist", "yes")
		},
		"resync": func(*page) {},
		"forget": func(p *page) {
			p.do("faults", "failWrite", map[string]string{"count": "5", "code": "500"})
			p.scale("2")
		},
		"limiters": func(p *page) { p.do("acts", "createMany", map[string]string{"count": "100"}) },
		"added-again": func(p *page) {
			p.fault("delayWrite", "seconds", "10")
			p.scale("3")
			p.receive("the write", `step.kind === "request" && step.verb === "patch"`)
			p.scale("4")
		},
		"stale": func(p *page) {
			p.fault("holdWatch", "lane", "deployments")
			p.scale("1")
			p.receive("the patch", isPatched)
			p.scale("2")
			p.receive("a sync with a stale cache", `step.kind === "syncEnd" && step.result === "stale"`)
			p.stepUntil("that the write is not back yet", shows("#api-server", "own write not back yet"))
			p.stepUntil("the reflector", shows("#reflector-deployments", "events held"))
			p.fault("releaseWatch")
		},
		"conflict": func(p *page) {
			p.fault("holdWatch", "lane", "deployments")
			p.on("editDeployment")
			p.scale("3")
			p.receive("the conflict", `step.kind === "response" && step.status === 409`)
			p.stepUntil("the conflict at the worker", shows("#worker", "✕ 409"))
			p.fault("releaseWatch")
		},
		"name": func(p *page) {
			p.do("acts", "takeName", map[string]string{"name": "taken"})
			p.do("acts", "rename", map[string]string{"name": "a", "deploymentName": "taken"})
			p.receive("the delay", `step.kind === "queueAddAfter" && step.why === "ErrResourceExists"`)
			p.do("acts", "deleteDeployment", map[string]string{"name": "taken"})
		},
		"killed": func(p *page) {
			leader := p.runTwo()
			p.fault("killLeader")
			p.receive("another leader", fmt.Sprintf(`step.kind === "leader" && step.pod !== %q`, leader))
			p.catchUp()
			if pods := p.text("#pods"); !contains(pods, fmt.Sprintf("pod %s: ✕ ended", leader), "● leader") {
				p.Errorf("the pods: %s", pods)
			}
			if shown := p.get("lab.shownPod"); shown == leader {
				p.Errorf("the picture still shows pod %s", leader)
			}
		},
		"deposed": func(p *page) {
			leader := p.runTwo()
			p.fault("freeze", "pod", leader)
			p.scale("1")
			p.receive("the other one leads", fmt.Sprintf(`step.kind === "leader" && step.pod !== %q`, leader))
			p.catchUp()
			if pods := p.text("#pods"); !contains(pods, fmt.Sprintf("pod %s: ❄ frozen", leader), "● leader") {
				p.Errorf("the pods: %s", pods)
			}
			p.fault("thaw", "pod", leader)
			p.receive("the end of the deposed leader", fmt.Sprintf(`step.kind === "podExited" && step.pod === %q`, leader))
		},
		"garbage": func(p *page) { p.on("delete") },
		"permission": func(p *page) {
			p.fault("revoke", "verb", "create")
			p.on("create")
			p.receive("the end of the sync that was rejected", `step.kind === "syncEnd" && step.result === "stalled"`)
			p.stepUntil("the rejection at the worker", shows("#worker", "✕ 403"))
			p.stepUntil("the fault", shows("#api-server", "revoke"))
			p.fault("grant")
		},
	}
	content, err := os.ReadFile("../page/exercises.json")
	if err != nil {
		t.Fatal(err)
	}
	var exercises []struct {
		ID     string
		Answer int
	}
	if err := json.Unmarshal(content, &exercises); err != nil {
		t.Fatal(err)
	}
	p := openLab(t)
	for index, exercise := range exercises {
		p.Logf("exercise %s", exercise.ID)
		p.click("#tab-exercises")
		p.get(fmt.Sprintf(`document.querySelectorAll("#exercises > button")[%d].click()`, index))
		p.click("#exercises .exercise > button")
		p.eventually("that the lab watches", shows("#exercises .exercise", "the lab is watching for it"))
		p.get(fmt.Sprintf(`document.querySelectorAll("#exercises .choice")[%d].click()`, exercise.Answer))
		if text := p.text("#exercises .exercise"); !contains(text, "Right.") {
			t.Errorf("the answer to %s: %s", exercise.ID, text)
		}
		tasks[exercise.ID](p)
		p.goOn()
		p.eventually(exercise.ID+" to be seen", shows("#exercises", "the lab has seen it"))
		p.shoot("exercise-" + exercise.ID)
		if exercise.ID == "limiters" {
			p.do("acts", "deleteMany", nil)
			p.eventually("that they are gone", `(lab.player.seek(lab.player.steps.length), lab.state.stored.foos.size === 1 && lab.state.stored.deployments.size === 1)`)
		}
		p.checkPicture()
	}
}

// TestFaults tries the faults and acts that no exercise needs, each followed by a change that has to reach the Deployment.
func TestFaults(t *testing.T) {
	p := openLab(t)
	p.on("create")
	p.settle(1)

	p.fault("loseResponse")
	p.scale("2")
	p.receive("that there is no response", `step.kind === "noResponse"`)
	p.stepUntil("that there is no response", shows("#worker", "✕ no response"))
	p.shoot("fault-loseResponse")
	p.settle(2)
	p.checkPicture()

	p.fault("slow", "milliseconds", "500")
	p.scale("3")
	p.receive("a slow response", isPatched+" && step.duration > 0.5")
	p.stepUntil("the fault", shows("#api-server", "slow")+` && document.querySelector("#faults .on[data-name=slow]") !== null`)
	p.fault("slow", "milliseconds", "0")
	p.settle(3)
	p.checkPicture()

	for _, cut := range []struct {
		lane, act string
		replicas  int
	}{{"foos", "scale", 4}, {"deployments", "scaleDeployment", 2}} {
		p.fault("cutWatch", "lane", cut.lane)
		p.receive("the end of the watch", isWatchEnded)
		p.do("acts", cut.act, map[string]string{"name": "a", "replicas": "5"})
		p.receive("the change", `step.kind === "stored"`)
		p.catchUp()
		if light := p.text("#light-" + cut.lane); !contains(light, "STALE") {
			p.Errorf("the Indexer of %s: %s", cut.lane, light)
		}
		p.fault("healWatch", "relist", "no")
		p.receive("the patch", isPatched)
		p.checkPicture()
		p.scale(fmt.Sprint(cut.replicas))
		p.settle(cut.replicas)
	}

	for _, end := range []struct {
		fault, how string
		replicas   int
	}{{"kill", "killed", 1}, {"terminateLeader", "exit code 0", 3}} {
		p.fault(end.fault)
		p.receive("the end", fmt.Sprintf(`step.kind === "podExited" && step.what.endsWith(%q)`, end.how))
		p.scale(fmt.Sprint(end.replicas))
		p.receive("the change", `step.kind === "stored"`)
		p.catchUp()
		if pods, workers := p.text("#pods"), p.text("#worker"); pods != "pod a: ✕ ended" || !contains(workers, "the process has ended") {
			p.Errorf("the pods: %s; the workers: %s", pods, workers)
		}
		p.shoot("fault-" + end.fault)
		p.fault("restart", "pod", "a")
		p.receive("the patch", isPatched)
		p.stepUntil("a key of the initial list", `document.querySelector("#waiting .chip.low") !== null`)
		p.settle(end.replicas)
		p.checkPicture()
	}

	// The cluster stands still: at first the event waits for a click, and then the request.
	p.get("lab.player.play(), 0")
	p.click("#play")
	p.scale("2")
	const isHeld = "!lab.cluster.stepping && lab.cluster.state.held > 0"
	for _, next := range []string{`step.kind === "watchEvent" && step.lane === "foos"`, isPatched} {
		hasArrived := `lab.player.steps.slice(lab.player.steps.findLastIndex((step) => step.kind === "act")).some((step) => ` + next + `)`
		p.eventually("that something is held", isHeld)
		if p.get(hasArrived) == true {
			t.Errorf("not held: %s", next)
		}
		p.eventually(next, hasArrived+` || (lab.player.seek(lab.player.steps.length), `+isHeld+` && document.querySelector("#forward").click(), false)`)
	}
	p.click("#now")
	p.settle(2)
	p.checkPicture()

	p.fault("slow", "milliseconds", "500")
	p.receive("the fault", `step.kind === "fault" && step.name === "slow"`)
	p.click("#reset")
	p.eventually("its end", `lab.player.steps.findLastIndex((step) => step.kind === "faultsEnd") > lab.player.steps.findLastIndex((step) => step.name === "slow")`)
	p.catchUp()
	if p.get("lab.state.faults.size") != 0.0 {
		t.Errorf("faults that last after a reset: %v", p.get("[...lab.state.faults.keys()].join()"))
	}
}
