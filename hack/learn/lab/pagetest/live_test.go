// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// startLab builds and starts a lab, and returns the address of its page.
func startLab(t *testing.T) string {
	t.Helper()
	command := exec.Command(*labBinary, "-root=../../../..")
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%v; make test-lab-page builds it", err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("the lab: %v", err)
		}
	})
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if _, url, ok := strings.Cut(lines.Text(), "The lab is at "); ok {
				address <- url
			}
		}
	}()
	select {
	case url := <-address:
		return url
	case <-time.After(15 * time.Minute): // The first build takes minutes.
		t.Fatal("the lab has not said where its page is")
		return ""
	}
}

// do clicks on an act or fault, after setting its fields. The page is paused before, so that no step is missed.
func (p *page) do(kind, name string, fields map[string]string) {
	p.Helper()
	p.click("#tab-" + kind)
	form := fmt.Sprintf("#%s form[data-name=%s]", kind, name)
	for field, value := range fields {
		selector := fmt.Sprintf("%s [name=%s], #%s .shared [name=%s]", form, field, kind, field)
		p.get(fmt.Sprintf("[...document.querySelectorAll(%q)].at(-1).value = %q", selector, value))
	}
	p.get("document.querySelector('#command').hidden = true, 0")
	p.click(form + " button")
	p.eventually("the response to "+name, "!document.querySelector('#command').hidden")
	if response := p.text("#command-text"); strings.HasPrefix(response, "✕") {
		p.Fatalf("%s: %s", name, response)
	}
}

// goOn lets the cluster go on if it stands still.
func (p *page) goOn() {
	p.Helper()
	p.get("lab.cluster.isRunning || lab.cluster.resume(), 0")
}

// receive lets the cluster go on, which stands still while its steps are shown one by one, and waits until the page has received a step that
// matches an expression, since the one that is shown.
func (p *page) receive(what, expression string) {
	p.Helper()
	p.goOn()
	p.eventually(what, fmt.Sprintf("lab.player.steps.slice(lab.player.position).some((step) => %s)", expression))
}

// catchUp shows all steps. The cluster goes on.
func (p *page) catchUp() {
	p.Helper()
	p.goOn()
	p.get("lab.player.pause(), lab.player.seek(lab.player.steps.length), 0")
}

// settle waits until nothing has happened for a while and a sync has found that the Deployment is in its desired state, and shows that.
func (p *page) settle(replicas int) {
	p.Helper()
	ready := fmt.Sprintf("%d of %d replicas available", replicas, replicas)
	p.receive(ready, fmt.Sprintf(`step.kind === "response" && (step.raw || "").includes(%q)`, ready))
	p.eventually("nothing differs", `(() => {
		const steps = lab.player.steps, last = steps.findLast((step) => step.kind !== "lease");
		return lab.cluster.now() - last.at > 1000 && steps.findLastIndex((step) => step.kind === "sync" && step.result === "same")
			> steps.findLastIndex((step) => step.kind === "request" && step.resource === "deployments");
	})()`)
	p.catchUp()
}

// openLab starts a browser and a lab, and waits until its controller runs.
func openLab(t *testing.T) *page {
	t.Helper()
	p := newPage(t)
	p.open(startLab(t), 1280, 800, "light")
	p.eventually("a live cluster", `document.querySelector("#mode").innerText.includes("live")`)
	p.eventually("the tour of a first visit", `lab.tour.isOpen`)
	p.get("lab.tour.end()")
	p.eventually("the leader", shows("#pods", "pod a: ● leader"))
	p.catchUp()
	return p
}

// TestLive lets the controller live through most of what it does, reads the picture, and checks that each of its writes comes back through the
// watch.
func TestLive(t *testing.T) {
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
