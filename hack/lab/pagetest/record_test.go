// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

var record = flag.String("record", "", "`directory` to write the recordings of the page to")

// TestRecordings lets the controller live through what the recording shows, reads the picture, and checks that each of its writes comes back
// through the watch. With -record it writes the recording, and those of all variants.
func TestRecordings(t *testing.T) {
	p := openLab(t)
	p.get("lab.cluster.changeSpeed(1), 0")
	began := p.get("lab.player.position")
	p.on("create")
	if command := p.text("#command-text"); !contains(command, "kubectl create") {
		t.Errorf("the command of the act: %s", command)
	}
	p.settle(1)
	p.get(fmt.Sprintf("lab.player.seek(%v), 0", began))
	p.stepUntil("the event on the watch", `document.querySelector("#tokens .token.wire")?.textContent === "ADDED a"`)
	p.stepUntil("the Foo in the Indexer", shows("#indexer-foos", "a "))
	p.stepUntil("the decision of the handler", shows("#handler-foos", "a queued: added"))
	p.stepUntil("the key in the queue", shows("#waiting", "a"))
	p.stepUntil("the key at a worker", shows("#worker", "read Foo"))
	p.stepUntil("that the cache has no Deployment", shows("#worker", "no Deployment cached"))
	p.stepUntil("the write", shows("#worker", "CREATE deployments"))
	p.shoot("live-create")
	p.catchUp()
	for _, lane := range []string{"foos", "deployments"} {
		if light := p.text("#light-" + lane); light != "✓ current" {
			t.Errorf("%s after the creation: %s", lane, light)
		}
		if newest, cached := p.text("#newest-"+lane), p.text("#cached-"+lane); newest != cached {
			t.Errorf("the newest of %s is %s, the cached one %s", lane, newest, cached)
		}
	}
	p.click("#play")
	p.eventually("that nothing differs", shows("#caption", "Idle: nothing differs."))
	p.catchUp()
	p.scale("3")
	p.settle(3)
	p.get(`lab.go(lab.player.steps.findLast((step) => step.kind === "response" && step.verb === "patch" && step.resource === "deployments" && step.status === 200).seq)`)
	p.catchUp()
	if loop := p.text("#detail"); !contains(loop, "THE LOOP OF THIS WRITE", "● patch deployments", "● its echo in the watch", "● in the Indexer", "● handler", "● key queued", "● sync") {
		t.Errorf("the loop of the patch: %s", loop)
	}
	p.shoot("live-loop")
	p.press(kb.Escape)
	p.on("deleteDeployment")
	p.settle(3)
	p.fault("cutWatch", "lane", "deployments")
	p.receive("the end of the watch", isWatchEnded)
	p.on("deleteDeployment")
	p.receive("the deletion", `step.kind === "stored" && step.eventType === "DELETED"`)
	p.fault("healWatch", "relist", "yes")
	p.receive("the tombstone", `step.kind === "handler" && step.eventType === "tombstone"`)
	p.settle(3)
	p.do("faults", "failWrite", map[string]string{"count": "5", "code": "500"})
	p.scale("2")
	p.settle(2)
	p.do("acts", "rename", map[string]string{"name": "a", "deploymentName": "b"})
	p.receive("the deletion of the superseded Deployment", `step.kind === "stored" && step.eventType === "DELETED"`)
	p.settle(2)
	if lost := p.get(lostEchoes); lost != "" {
		t.Errorf("no event brings these writes back, or they do not reach the Indexer:\n%s", lost)
	}
	if *record == "" {
		return
	}
	p.receive("a resync", `step.kind === "handler" && step.eventType === "resync"`)
	p.catchUp()
	p.runTwo()
	p.fault("killLeader")
	p.receive("another leader", `step.kind === "leader"`)
	p.catchUp()
	p.scale("3")
	p.settle(3)
	p.write("recording.jsonl", "lab.player.steps")
	for _, id := range p.get("lab.variants.list.map(({ id }) => id)").([]any) {
		p.playVariant(fmt.Sprint(id))
		p.write(fmt.Sprintf("variants/%s.jsonl", id), fmt.Sprintf(`lab.player.steps.slice(lab.player.steps.findLastIndex((step) => step.kind === "variant" && step.name === %q && step.result === "controller"))
			.map((step) => step.source === "log" ? { ...step, raw: undefined } : step)`, id))
	}
}

// lostEchoes returns the writes that no event brings back to the Indexer.
const lostEchoes = `(() => {
	const { steps } = lab.player;
	const writes = steps.filter((step) => step.kind === "response" && step.lane && step.verb !== "get" && step.status < 300);
	const isBack = (write) => {
		const at = steps.findIndex((step) => step.kind === "watchEvent" && step.lane === write.lane && step.object === write.object &&
			(write.verb === "delete" ? step.eventType === "DELETED" && step.seq > write.request : step.resourceVersion === write.resourceVersion));
		return at >= 0 && steps.slice(at).some((step) => step.kind === "indexerSet" && step.object === steps[at].object && step.resourceVersion === steps[at].resourceVersion);
	};
	if (writes.length < 10) return "there were only " + writes.length + " writes";
	return writes.filter((write) => !isBack(write)).map((write) => JSON.stringify(write)).join("\n");
})()`

// playVariant runs a variant, and waits until its scenario has been played.
func (p *page) playVariant(id string) {
	p.Helper()
	p.openVariant(id)
	p.eventually("that it can be run", `document.querySelector("#variants .run:enabled") !== null`)
	p.click("#variants .run")
	p.eventually("the run of the variant", fmt.Sprintf(`lab.player.steps.some((step) => step.kind === "variant" && step.result === "variant" && step.name === %q)`, id))
	if boxes := p.get(overflowing); boxes != "" {
		p.Errorf("overflow while the scenario is played: %s", boxes)
	}
	p.shoot("variant-runs")
	p.click("#acts form[data-name=create] button")
	p.eventually("that nobody else acts", shows("#command-text", "The scenario of a variant is being played."))
	p.eventually("the scenario of "+id, fmt.Sprintf(`lab.player.steps.some((step) => step.kind === "variantEnd" && step.stop === "fault" && step.name === %q)`, id)+
		` && document.querySelector("#variants .phase")?.innerText === "The variant runs instead of the controller."`)
}

// write writes steps to a file, one a line.
func (p *page) write(name, steps string) {
	p.Helper()
	lines := p.get(fmt.Sprintf(`(%s).map(({ at, ...step }) => JSON.stringify(step) + "\n").join("")`, steps))
	if err := os.WriteFile(filepath.Join(*record, name), []byte(fmt.Sprint(lines)), 0o644); err != nil {
		p.Fatal(err)
	}
}
