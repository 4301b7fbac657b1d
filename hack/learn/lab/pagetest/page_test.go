// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// overflowing returns the texts that need more room than their box, button or panel has, and the boxes that overlap or are outside of the picture.
// What may be cut has its text as its title. It is measured by a ResizeObserver of its own, because the picture draws its arrows anew in
// another, and observers are called in the order of their creation: in between, a new scrollbar leaves the arrows where they were.
const overflowing = `new Promise((measured) => new ResizeObserver((_, observer) => {
	observer.disconnect();
	const found = [];
	const sticksOut = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
	for (const element of document.querySelectorAll("#bar *, #do *, #picture *")) {
		const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
		if (!hasText || !element.checkVisibility() || element.closest("svg, select")) continue;
		const titled = element.closest("[title]");
		if (titled && getComputedStyle(titled).textOverflow === "ellipsis") continue;
		for (let cut = element; cut.id !== "picture" && cut !== document.body; cut = cut.parentElement) {
			if (getComputedStyle(cut).textOverflow === "ellipsis" && cut.scrollWidth > cut.clientWidth + 1) found.push("cut: " + cut.textContent);
		}
		const range = document.createRange();
		range.selectNodeContents(element);
		const { left, right, bottom } = range.getBoundingClientRect();
		const box = element.closest("button, .cell, .stop, .panel, #command, #caption, #bar, #do, #picture");
		const isScrolled = box.matches(".panel, #command");
		if (sticksOut({ left, right, bottom: isScrolled ? 0 : bottom }, box.getBoundingClientRect())) found.push(box.id + ": " + element.textContent);
	}
	const rectangles = [...document.querySelectorAll("#picture .stop, #picture .cell")].map((box) => [box, box.getBoundingClientRect()]);
	const picture = document.getElementById("picture").getBoundingClientRect();
	for (const [box, r] of rectangles) {
		if (sticksOut(r, picture)) found.push(box.id + " is outside of the picture");
		for (const [other, o] of rectangles) {
			if (!other.contains(box) && !box.contains(other) && r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom) found.push(box.id + " overlaps " + other.id);
		}
	}
	const visible = picture.left + document.getElementById("picture").clientWidth; // without a scrollbar
	for (const arrow of document.querySelectorAll("#arrows path")) {
		if (arrow.getBoundingClientRect().right > visible) found.push("the arrow " + arrow.id + " is outside of the picture");
	}
	for (const trail of innerWidth > 900 ? document.querySelectorAll(".trail") : []) {
		for (const end of [trail.firstElementChild, trail.lastElementChild]) {
			if (end && (end.scrollWidth > end.clientWidth + 1 || sticksOut(end.getBoundingClientRect(), trail.getBoundingClientRect()))) found.push("an end of the trail is cut: " + end.textContent);
		}
	}
	measured(found.join("\n"));
}).observe(document.getElementById("picture")))`

// withLongNames makes the recording one of an object with a long name in a cluster that has run for long.
const withLongNames = `(() => {
	const name = "a-foo-with-a-name-as-long-as-the-name-of-an-object-may-well-be-01";
	const text = JSON.stringify(lab.player.steps).replaceAll('default/a"', 'default/' + name + '"').replace(/"resourceVersion":"(\d+)"/g, '"resourceVersion":"100$1"');
	lab.player.load(JSON.parse(text), false);
})()`

func TestLayout(t *testing.T) {
	url := startLab(t)
	for _, screen := range []struct {
		name          string
		width, height int
		scheme        string
	}{
		{"laptop", 1440, 757, "light"}, {"small-window", 1280, 720, "light"},
		{"desktop-light", 1280, 800, "light"}, {"desktop-dark", 1280, 800, "dark"}, {"phone-light", 390, 844, "light"}, {"phone-dark", 390, 844, "dark"},
	} {
		t.Run(screen.name, func(t *testing.T) {
			p := newPage(t)
			p.openRecording(url, screen.width, screen.height, screen.scheme)
			p.get("lab.player.pause(), lab.player.seek(Math.floor(lab.player.steps.length / 2)), 0")
			p.get("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(0))))")
			p.shoot(screen.name)
			steps := int(p.get("lab.player.steps.length").(float64))
			if width := p.get("document.documentElement.scrollWidth").(float64); int(width) > screen.width {
				t.Errorf("the page is %v wide", width)
			}
			if height := p.get("document.documentElement.scrollHeight").(float64); screen.width > 900 && int(height) > screen.height {
				t.Errorf("the page is %v high", height)
			}
			for _, names := range []string{"", withLongNames} {
				if names != "" {
					p.get(names)
				}
				for position := 0; position <= steps; position += 45 {
					p.get(fmt.Sprintf("lab.player.pause(), lab.player.seek(%d), 0", position))
					if boxes := p.get(overflowing); boxes != "" {
						p.shoot("overflow-" + screen.name)
						t.Fatalf("overflow at step %d: %s", position, boxes)
					}
				}
			}
			isDark := p.get(`getComputedStyle(document.body).color.match(/\d+/g).every((part) => part > 128)`)
			if isDark != (screen.scheme == "dark") {
				t.Errorf("dark: %v", isDark)
			}
		})
	}
}

func TestReplay(t *testing.T) {
	p := newPage(t)
	p.openRecording(startLab(t), 1280, 800, "light")
	p.eventually("the first steps", "lab.player.position > 3")

	p.click("#play")
	position := p.get("lab.player.position").(float64)
	p.press(kb.ArrowRight)
	p.eventually("a step forward", fmt.Sprintf("lab.player.position === %v", position+1))
	p.press(kb.ArrowLeft)
	p.press(kb.ArrowLeft)
	p.eventually("two steps back", fmt.Sprintf("lab.player.position === %v", position-1))

	// What is shown after seeking is what is shown after playing.
	p.get(`document.querySelector("#at").value = 150, document.querySelector("#at").dispatchEvent(new Event("input"))`)
	p.eventually("the row of the step that is shown", `(() => {
		const row = document.querySelector("#rows [aria-selected=true]");
		const [list, at] = [row.parentElement, row].map((element) => element.getBoundingClientRect());
		return Number(row.dataset.seq) === lab.player.current.seq && at.top >= list.top - 1 && at.bottom <= list.bottom + 1;
	})()`)
	sought := p.text("#picture")
	p.get("lab.player.seek(140), 0")
	p.stepUntil("step 150", "lab.player.position === 150")
	if stepped := p.text("#picture"); stepped != sought {
		t.Errorf("after seeking:\n%s\nafter stepping:\n%s", sought, stepped)
	}

	p.get("lab.player.seek(0), 0")
	p.stepUntil("a key that is processed", shows("#processing", "a #1"))
	p.stepUntil("a request on its arrow", `document.querySelector("#tokens .token.wire")?.textContent.startsWith("CREATE") === true`)
	p.stepUntil("the echo of a write", `document.querySelector("#tokens .token.wire")?.textContent.startsWith("↺") === true`)
	p.stepUntil("a key that was added again", shows("#processing", "again"))
	p.stepUntil("a delay", shows("#delayed", "a in "))
	p.click("#delayed .chip")
	if detail := p.text("#detail"); !contains(detail, "default/a", "is added again when its delay has elapsed", "GLOSSARY") {
		t.Errorf("detail of a key: %s", detail)
	}
	p.click("#reflector-foos h2 button")
	if detail := p.text("#detail"); !contains(detail, "Reflector", "Watches a resource", "The part of an informer that lists and watches one resource") {
		t.Errorf("detail of the Reflector: %s", detail)
	}
	if links := p.get(`[...document.querySelectorAll("#detail a")].map((link) => link.pathname + link.hash).join()`); links != "/docs/reference/client-go.html#reflector,/docs/reference/client-go.html#bookmarks-and-watchlist" {
		t.Errorf("the links of the term: %v", links)
	}
	p.press(kb.Escape)

	p.stepUntil("the tombstone", shows("#handler-deployments", "tombstone a"))
	p.stepUntil("a failure that the rate limiter remembers", shows("#limiter", "a ×2"))
	p.stepUntil("that Forget clears it", shows("#limiter", "no failures"))
	p.get(`document.querySelector("#speed").value = "16", document.querySelector("#speed").dispatchEvent(new Event("change"))`)
	p.click("#play")
	p.eventually("the end", "lab.player.behind === 0")
	p.get(`document.querySelector("#filter").value = "none", document.querySelector("#filter").dispatchEvent(new Event("input"))`)
	if rows := p.get(`document.querySelectorAll("#rows .step").length`); rows != 0.0 {
		t.Errorf("%v steps of a key that does not exist", rows)
	}
}

// TestKeyboard checks that every stop and every item can be reached with the Tab key.
func TestKeyboard(t *testing.T) {
	p := newPage(t)
	p.openRecording(startLab(t), 1280, 800, "light")
	p.get("lab.player.pause(), lab.player.seek(150), 0")
	p.get("document.body.focus(), window.reached = new Set(), document.addEventListener('focusin', (event) => reached.add(event.target)), 0")
	for range 120 {
		p.press(kb.Tab)
	}
	const missed = `[...document.querySelectorAll("#picture h2 button, #picture .chip, #bar button:enabled:not([hidden]), #rows, #detail")]
		.filter((element) => !reached.has(element) && element.offsetParent).map((element) => element.innerText || element.id).join()`
	if got := p.get(missed); got != "" {
		t.Errorf("not reached: %s", got)
	}
}

// TestManyFoos checks that the page keeps up with 1,000 Foos at once, by showing counts.
func TestManyFoos(t *testing.T) {
	p := newPage(t)
	p.openRecording(startLab(t), 1280, 800, "light")
	p.get(`(() => {
		const steps = [], time = new Date(lab.player.steps.at(-1).at + 1000).toISOString();
		for (let i = 0; i < 1000; i++) {
			const object = "default/many-" + i, at = { time, pod: "a", lane: "foos", object, resourceVersion: String(100000 + i) };
			steps.push({ ...at, kind: "watchEvent", stop: "reflector", source: "wire", eventType: "ADDED" },
				{ ...at, kind: "fifoPush", stop: "fifo", source: "inferred", eventType: "Added" }, { ...at, kind: "fifoPop", stop: "fifo", source: "inferred", eventType: "Added" },
				{ ...at, kind: "indexerSet", stop: "indexer", source: "inferred" }, { ...at, kind: "handler", stop: "handler", source: "log", eventType: "add" },
				{ time, pod: "a", kind: "queueAdd", stop: "queue", source: "log", key: object, priority: "high", why: "added" });
		}
		steps.forEach((step, i) => { step.seq = i + 1; });
		lab.player.load(steps, false);
		lab.player.speed = 1;
		window.began = performance.now();
		lab.player.play();
	})()`)
	p.eventually("a count on an arrow", `[...document.querySelectorAll("#tokens .count")].some((count) => /^×\d\d/.test(count.textContent))`)
	p.eventually("nearly all steps", "lab.player.behind < 200")
	if took := p.get("performance.now() - began").(float64); took > 20000 {
		t.Errorf("6000 steps were shown in %v ms", took)
	}
	p.eventually("1000 keys", shows("#queue-sum", "1000 changes, 1000 keys"))
	p.shoot("many")
}
