// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runsOfTwo are two runs of a scenario: the controller creates, and the variant creates twice and never patches.
const runsOfTwo = `
	{"kind":"variant","name":"v","result":"controller","stop":"fault"}
	{"kind":"act","stop":"act","what":"Create a Foo","why":"name a"}
	{"kind":"syncStart","key":"default/a"}
	{"seq":104,"kind":"request","stop":"request","verb":"create","resource":"deployments","object":"default/a"}
	{"seq":105,"kind":"response","stop":"response","request":104,"verb":"create","resource":"deployments","status":201}
	{"seq":106,"kind":"request","stop":"request","verb":"patch","resource":"deployments","object":"default/a"}
	{"kind":"request","stop":"request","verb":"watch","resource":"foos"}
	{"kind":"variantEnd","name":"v","stop":"api-server","lane":"deployments","object":"default/a","what":"3 replicas"}
	{"kind":"variantEnd","name":"v","stop":"fault"}
	{"kind":"request","stop":"request","verb":"delete","resource":"deployments","object":"default/between"}
	{"kind":"variant","name":"v","result":"variant","stop":"fault"}
	{"kind":"act","stop":"act","what":"Create a Foo","why":"name a"}
	{"seq":113,"kind":"request","stop":"request","verb":"create","resource":"deployments","object":"default/a"}
	{"seq":114,"kind":"response","stop":"response","request":113,"verb":"create","resource":"deployments","status":201}
	{"seq":115,"kind":"request","stop":"request","verb":"create","resource":"deployments","object":"default/a"}
	{"seq":116,"kind":"response","stop":"response","request":115,"verb":"create","resource":"deployments","status":409}
	{"kind":"variantEnd","name":"v","stop":"api-server","lane":"deployments","object":"default/a","what":"1 replicas"}
	{"kind":"variantEnd","name":"v","stop":"fault"}`

func TestStateOfVariants(t *testing.T) {
	engine := newEngine(t, parseSteps(t, runsOfTwo))
	for script, want := range map[string]string{
		`.rows`:                           `[["create deployments",1,2],["patch deployments",1,0],["writes of Foos and Deployments",2,2],["syncs",1,0]]`,
		`.ends.map((end) => end[0].what)`: `["3 replicas","1 replicas"]`,
		`.traces.map((rows) => rows.map(({ text, isWrong }) => isWrong ? "!" + text : text))`: `[["Create a Foo (name a)","CREATE deployments a → 201","PATCH deployments a"],` +
			`["Create a Foo (name a)","CREATE deployments a → 201","!CREATE deployments a → 409"]]`,
	} {
		compare := `JSON.stringify(compare(steps, { id: "v", scenario: { wrong: { step: { kind: "response", status: 409 } } } })` + script + `)`
		if got := evaluate(t, engine, compare); got != want {
			t.Errorf("%s is\n%v, want\n%s", script, got, want)
		}
	}
	for wrong, want := range map[string]string{
		`{ step: { verb: "patch" }, missing: true }`:               `{"seq":106,"missing":true}`,
		`{ step: { verb: "create", kind: "request" }, nth: 2 }`:    `{"seq":115,"missing":false}`,
		`{ step: { verb: "create", kind: "request" }, nth: 3 }`:    `null`,
		`{ step: { kind: "request", resource: "no-such-thing" } }`: `null`,
	} {
		if got := evaluate(t, engine, `JSON.stringify(compare(steps, { id: "v", scenario: { wrong: `+wrong+` } }).wrong)`); got != want {
			t.Errorf("%s: %v, want %s", wrong, got, want)
		}
	}
	for steps, want := range map[string]string{
		`steps.slice(0, -1)`:                                "null", // The variant's run has not ended.
		`steps.slice(steps.length / 2)`:                     "null", // The controller's run is not kept any more.
		`steps.concat(steps.slice(0, 4))`:                   "null", // A second time has begun.
		`steps.concat(steps)`:                               "true",
		`steps.map((step) => ({ ...step, name: "other" }))`: "null",
	} {
		script := `const compared = compare(` + steps + `, { id: "v", scenario: { wrong: { step: { kind: "none" } } } }); String(compared && compared.traces[1].length === 3)`
		if got := evaluate(t, engine, "(() => { "+strings.Replace(script, "String(", "return String(", 1)+" })()"); got != want {
			t.Errorf("%s: %v, want %s", steps, got, want)
		}
	}
}

// catalogue returns the variants.
func catalogue(t *testing.T) (all []map[string]any) {
	t.Helper()
	content, err := os.ReadFile("../../variants/catalogue/catalogue.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &all); err != nil || len(all) == 0 {
		t.Fatalf("there are %d variants: %v", len(all), err)
	}
	return all
}

// recordingOf returns the file with the recording of a variant.
func recordingOf(variant map[string]any) string {
	return filepath.Join(recordings, "variants", fmt.Sprint(variant["id"], ".jsonl"))
}

// TestRecordingsOfVariants checks that each recording shows where its variant goes wrong.
func TestRecordingsOfVariants(t *testing.T) {
	for _, variant := range catalogue(t) {
		lines, err := os.ReadFile(recordingOf(variant))
		if err != nil {
			t.Fatalf("%v; make recordings writes it", err)
		}
		engine := newEngine(t, parseSteps(t, string(lines)))
		setJSON(t, engine, "variant", variant)
		const script = `(() => {
			const compared = compare(steps, variant);
			return compared.traces.flat().filter((row) => row.isWrong).length + " " + compared.rows.length;
		})()`
		if got := fmt.Sprint(evaluate(t, engine, script)); !strings.HasPrefix(got, "1 ") {
			t.Errorf("%s: steps that are marked as wrong, and rows: %v", variant["id"], got)
		}
	}
}

// openVariant opens a variant in its tab.
func (p *page) openVariant(id string) {
	p.Helper()
	p.eventually("the variants", fmt.Sprintf("document.querySelector('#variants [data-id=%s]') !== null", id))
	p.click("#tab-variants")
	p.click(fmt.Sprintf("#variants [data-id=%s]", id))
}

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

// checkComparison fails unless the page compares the controller with the variant no-done.
func (p *page) checkComparison() {
	p.Helper()
	cells := func(row string) any {
		return p.get(fmt.Sprintf(`[...document.querySelectorAll("#variant tbody tr")].filter((row) => row.firstChild.innerText === %q)
			.map((row) => row.className + ": " + [...row.children].slice(1).map((cell) => cell.innerText).join(" / ")).join()`, row))
	}
	if got := cells("patch deployments"); got != "differs: 1 / 0" {
		p.Errorf("patches of Deployments: %v", got)
	}
	if got := cells("in the end"); !contains(fmt.Sprint(got), "differs:", "Deployment a: 3 replicas, 3 available", "Deployment a: 1 replicas, 1 available") {
		p.Errorf("in the end: %v", got)
	}
	if wrong := p.get(`[...document.querySelectorAll("#variant .wrong")].map((row) => row.innerText).join()`); !contains(fmt.Sprint(wrong), "only the controller: PATCH deployments a → 200", "✕ it goes wrong") {
		p.Errorf("where it goes wrong: %v", wrong)
	}
	if p.get(`[...document.querySelectorAll("#variant, #variant table, #variant li")].some((part) => part.scrollWidth > part.clientWidth + 1)`) == true {
		p.Error("the comparison is wider than its place")
	}
	if boxes := p.get(overflowing); boxes != "" {
		p.Errorf("overflow: %s", boxes)
	}
}

func TestRecordedVariant(t *testing.T) {
	p := newPage(t)
	p.openRecording(startLab(t), 1280, 720, "light")
	p.openVariant("no-done")
	p.eventually("the comparison", `document.querySelector("#variant table") !== null`)
	p.checkComparison()
	p.shoot("variant-recorded")
	p.click("#variant .wrong button")
	p.eventually("the picture at the step that the variant does not make", `document.querySelector("#variant").hidden && document.querySelector("#caption").innerText.includes("patch deployments")`)
	p.click("#variants .controls button:last-of-type")
	p.eventually("the comparison", `!document.querySelector("#variant").hidden`)
}

// TestVariant runs a variant in a live lab.
func TestVariant(t *testing.T) {
	p := openLab(t)
	p.open(fmt.Sprint(p.get("location.href")), 1280, 720, "light")
	p.openVariant("no-done")
	p.eventually("the difference", shows("#variant", "defer c.workqueue.Done"))
	if p.get(`performance.getEntriesByType("resource").some(({ name }) => name.endsWith("/variants/no-done.jsonl"))`) == true {
		t.Error("the recording was made before anybody has played it")
	}
	p.click("#variants [data-id=no-done]")
	p.playVariant("no-done")
	p.eventually("the comparison", `document.querySelector("#variant table") !== null && !document.querySelector("#variant").hidden`)
	p.checkComparison()
	if text := p.text("#variant"); !contains(text, "Why does the workqueue have to know?", "defer c.workqueue.Done") {
		t.Errorf("the variant: %s", text)
	}
	p.shoot("variant")
	if badge := p.text("#replaced"); !contains(badge, "no-done", "back to the controller") {
		t.Errorf("the badge: %s", badge)
	}
	p.click("#back-to-controller")
	p.eventually("the controller", `document.querySelector("#replaced").hidden`)
	// The controller brings the Deployment to the state that the variant has ignored.
	p.eventually("its patch", `lab.player.steps.slice(lab.player.steps.findLastIndex((step) => step.kind === "variantEnd")).some((step) => step.kind === "request" && step.verb === "patch" && step.resource === "deployments")`)
	p.click("#variants .play")
	p.eventually("the recording", `document.querySelector("#mode").innerText.includes("recording no-done")`)
}
