// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/learn/variants"
)

const root = "../../../.."

// The copy of each variant lacks something.
func TestVariantsLackSomething(t *testing.T) {
	all, catalogue := read(t)
	original := filepath.Join(t.TempDir(), "original")
	if err := copyProject(root, original); err != nil {
		t.Fatal(err)
	}
	for n := range catalogue {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := all[n].begin(root, dir, strconv.Itoa(n+1)); err != nil {
			t.Fatal(err)
		}
		if difference(t, original, dir) == "" {
			t.Errorf("exercise %d lacks nothing", n+1)
		}
		if places(all[n].solution) == "" {
			t.Errorf("exercise %d has no hint", n+1)
		}
	}
}

// An exercise fails as it says, and passes with its solution.
func TestExercise(t *testing.T) {
	all, catalogue := read(t)
	const n = 4 // the fifth
	verify(t, all[n], func(dir string) error { return copyProject(root, dir) },
		catalogue[n].Broken+": ", "BROKEN PROMISE", "--- FAIL: "+catalogue[n].Test.Name)
}

// verify verifies that an exercise says texts when it begins, and passes when it is solved.
func verify(t *testing.T, e exercise, solve func(dir string) error, texts ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := e.begin(root, dir, "1"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.check(dir, &out); err == nil {
		t.Error("it passes without its solution")
	}
	for _, text := range texts {
		if !strings.Contains(out.String(), text) {
			t.Errorf("it does not say %q:\n%s", text, &out)
		}
	}
	if err := solve(dir); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := e.check(dir, &out); err != nil {
		t.Errorf("it does not pass with its solution: %v\n%s", err, &out)
	}
}

func TestInvalidInput(t *testing.T) {
	other, used := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{filepath.Join(other, "file"): "", filepath.Join(used, marker): "4\n"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ n, dir, want string }{
		{"", "", "from N=1 to N="},
		{"x", "", "from N=1 to N="},
		{"0", "", "from N=1 to N="},
		{"1000", "", "from N=1 to N="},
		{"5", other, "is not empty: choose another DIR"},
		{"5", used, "has exercise 4: choose another DIR"},
	} {
		if err := run(root, test.n, test.dir, false, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("N=%s DIR=%s: error %v, want one with %q", test.n, test.dir, err, test.want)
		}
	}
}

func read(t *testing.T) ([]exercise, []variants.Variant) {
	t.Helper()
	all, err := exercises(root)
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := variants.All()
	if err != nil {
		t.Fatal(err)
	}
	return all, catalogue
}

// difference returns how the files in b differ from those in a.
func difference(t *testing.T, a, b string) string {
	t.Helper()
	output, err := exec.Command("diff", "--recursive", "--exclude=.git", "--exclude="+marker, a, b).CombinedOutput()
	if err != nil && len(output) == 0 {
		t.Fatal(err)
	}
	return string(output)
}
