// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write docs/learn/exercises.md")

func TestCatalogue(t *testing.T) {
	want := []string{"catalogue/catalogue.json"}
	for _, v := range catalogued(t) {
		want = append(want, "catalogue/"+v.ID+".diff")
		for name, text := range map[string]string{
			"title": v.Title, "question": v.Question, "seen": v.Seen, "promise": v.Promise, "broken": v.Broken, "test": v.Test.Name, "package": v.Test.Package,
			"says": v.Test.Says, "diff": v.Diff,
		} {
			if text == "" {
				t.Errorf("%s has no %s", v.ID, name)
			}
		}
		if len(v.Scenario.Steps) == 0 || len(v.Scenario.Wrong.Step) == 0 {
			t.Errorf("%s: its scenario has no steps, or does not say where they go wrong", v.ID)
		}
		for i, step := range v.Scenario.Steps {
			acts, waits := step.Act != "" || step.Fault != "", step.Wait > 0
			if acts == waits || step.Act != "" && step.Fault != "" || step.Until != nil && !waits || step.Fields != nil && !acts {
				t.Errorf("%s: step %d is not exactly one act, fault or wait: %+v", v.ID, i, step)
			}
		}
	}
	files, err := fs.Glob(catalogue, "catalogue/*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("the files are %q, want %q", files, want)
	}
}

func TestMarkdownIsUpToDate(t *testing.T) {
	want, err := Markdown(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs/learn/exercises.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/learn/exercises.md is out of date, run make exercises-docs")
	}
}
