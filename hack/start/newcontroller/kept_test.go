// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What is kept says nothing of the kind and its group, and the project's names only where they follow from the module.
func TestKeptIsOfNoKind(t *testing.T) {
	files, err := readFiles(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	module := regexp.MustCompile(`k8s\.io/sample-controller|sample-controller|sample_controller`)
	for _, folder := range kept {
		if !slices.ContainsFunc(files, func(f file) bool { return f.isIn(folder) }) {
			t.Errorf("%s has no file", folder)
		}
	}
	for _, f := range files {
		if !f.isIn(kept...) || filepath.Ext(f.path) == ".sum" {
			continue
		}
		for line := range strings.Lines(f.path + "\n" + string(f.content)) {
			if word := traces.FindString(module.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s: %q in %q", f.path, word, line)
			}
		}
	}
}

// The READMEs say how many lines a new controller has, and how many are only here.
func TestLines(t *testing.T) {
	files, err := readFiles(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trackedFiles(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	total := countLines(files)
	inHack := countLines(slices.DeleteFunc(files, func(f file) bool { return !strings.HasPrefix(f.path, "hack/") }))
	onlyHere := countLines(slices.DeleteFunc(all, func(f file) bool { return !isOnlyHere(f.path) }))
	if total.yours > 8000 {
		t.Errorf("%d lines of a new controller are its author's, want at most 8,000", total.yours)
	}
	for name, rows := range map[string]map[string]int{
		"README.md":      {"yours": total.yours, "kept": total.kept, "generated": total.generated, "only here": onlyHere.yours + onlyHere.kept},
		"hack/README.md": {"yours": inHack.yours, "kept": inHack.kept, "only here": onlyHere.yours + onlyHere.kept},
	} {
		content := read(t, root, name)
		for row, lines := range rows {
			match := regexp.MustCompile(`(?m)^\| \*\*` + row + `\*\*.* \| ([\d,]+) \|$`).FindStringSubmatch(content)
			if match == nil {
				t.Errorf("%s has no row for what is %s", name, row)
				continue
			}
			if said, _ := strconv.Atoi(strings.ReplaceAll(match[1], ",", "")); max(said-lines, lines-said)*20 > lines {
				t.Errorf("%s says that %d lines are %s, want about %d", name, said, row, lines)
			}
		}
	}
}

// hack/verify-kept.sh names each file that was edited, removed or added where all is kept.
func TestVerifyKept(t *testing.T) {
	setIdentity(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"hack/verify-kept.sh": read(t, root, "hack/verify-kept.sh"), "hack/tools/a b": "", "hack/tools/c": "", "hack/simulation/d": "", "hack/simulation/foos/e": "",
	} {
		if err := (file{path: name, mode: 0o755, content: []byte(content)}).write(dir); err != nil {
			t.Fatal(err)
		}
	}
	verify := func() string {
		output, err := exec.Command(filepath.Join(dir, "hack/verify-kept.sh")).CombinedOutput()
		if (err == nil) != (len(output) == 0) {
			t.Errorf("error = %v with the output %q", err, output)
		}
		return string(output)
	}
	command(t, dir, "git", "init", "--quiet")
	command(t, dir, "git", "add", "--all")
	if got := verify(); got != "" {
		t.Errorf("without %s: %s", keptPath, got)
	}
	if err := writeKept(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "git", "commit", "--quiet", "--message", "Keep")
	if got := verify(); got != "" {
		t.Errorf("before any change: %s", got)
	}
	for name, content := range map[string]string{"hack/tools/a b": "edited", "hack/simulation/new": "", "hack/simulation/foos/e": "edited", "hack/f": ""} {
		if err := (file{path: name, mode: 0o644, content: []byte(content)}).write(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "hack/tools/c")); err != nil {
		t.Fatal(err)
	}
	got := verify()
	restore := strings.TrimSpace(command(t, dir, "git", "log", "-1", "--format=%h"))
	for _, want := range []string{
		"hack/tools/a b is kept, and was edited. Restore it: git checkout " + restore + " -- hack/tools/a b\n",
		"hack/tools/c is kept, and was removed. Restore it: git checkout " + restore + " -- hack/tools/c\n",
		"hack/simulation/new was added to a folder that is kept.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output does not contain %q:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines != 4 {
		t.Errorf("the output has %d lines, want 4:\n%s", lines, got)
	}
}
