// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/learn/variants"
)

const root = "../../../.."

// recordWalk has a probe of the simulation fail for a variant, and returns the file in which it is recorded.
func recordWalk(t *testing.T, variant, probe string) (file string) {
	t.Helper()
	all, err := variants.All()
	if err != nil {
		t.Fatal(err)
	}
	files, err := all[slices.IndexFunc(all, func(v variants.Variant) bool { return v.ID == variant })].Files(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := variants.Overlay(root, dir, files)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "simulation.test")
	if err := variants.BuildSimulation(t.Context(), root, overlay, program); err != nil {
		t.Fatal(err)
	}
	walk := exec.Command(program, "-test.run=^TestSimulation$/^probes$/^"+strings.ReplaceAll(probe, " ", "_")+"$", "-shrink=0", "-record="+dir)
	walk.Dir = root
	output, _ := walk.CombinedOutput() // It fails, as it has to.
	recorded, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(recorded) != 1 || !strings.Contains(string(output), recorded[0]+`, for "open…" in make lab`) {
		t.Fatalf("the recordings are %q (%v), and the output is\n%s", recorded, err, output)
	}
	return recorded[0]
}

// openFile opens a file as its user does.
func (p *page) openFile(file string) {
	p.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		p.Fatal(err)
	}
	p.get(fmt.Sprintf(`(() => {
		const data = new DataTransfer(), input = document.querySelector("#file");
		data.items.add(new File([%q], %q));
		input.files = data.files;
		input.dispatchEvent(new Event("change"));
	})()`, content, filepath.Base(file)))
	p.eventually("the recording", shows("#mode", filepath.Base(file)))
}

// TestWalk opens the recording of a walk in which a variant has broken a promise, and shows it.
func TestWalk(t *testing.T) {
	file := recordWalk(t, "no-forget", "an error after a success")
	p := openLab(t)
	p.openFile(file)
	p.stepUntil("what a user has done", shows("#caption", "creates Foo foo-0"))
	p.stepUntil("the leader", shows("#pods", "● leader"))
	p.get(`lab.go(lab.player.steps.find((step) => step.kind === "queueAddRateLimited" && step.retries === 5).seq), 0`)
	p.eventually("the retry", shows("#delayed", "foo-"))
	p.shoot("walk-retry")
	p.get("lab.go(lab.player.steps.at(-1).seq), 0")
	p.eventually("the broken promise", shows("#caption", "Broken promise · an error after a success · is broken – ✕ create deployments"))
	p.eventually("the last step in the list", shows("#rows", "is broken – create deployments"))
	p.shoot("walk-broken")
	if boxes := p.get(overflowing); boxes != "" {
		t.Errorf("overflow: %s", boxes)
	}
}
