// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// What is missing of each feature, and its tests, are what its page changes.
func TestSolutionsOfFeatures(t *testing.T) {
	features, err := features(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(features) < 5 {
		t.Errorf("there are only %d features", len(features))
	}
	split, whole := filepath.Join(t.TempDir(), "split"), filepath.Join(t.TempDir(), "whole")
	for _, dir := range []string{split, whole} {
		if err := copyProject(root, dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range features {
		solution, tests := f.split()
		if len(solution) == 0 || len(tests) == 0 {
			t.Errorf("%s has no solution, or no tests", f.title)
		}
		for dir, steps := range map[string][]string{split: append(tests, solution...), whole: f.steps} {
			if err := f.apply(dir, steps); err != nil {
				t.Fatal(err)
			}
		}
		if got := difference(t, whole, split); got != "" {
			t.Errorf("%s differs:\n%s", f.title, got)
		}
	}
}

// The first feature fails as it says, and passes with its solution, but not before the code for it is generated.
func TestFeature(t *testing.T) {
	features, err := features(root)
	if err != nil {
		t.Fatal(err)
	}
	solution, _ := features[0].split()
	e := features[0].exercise(nil)
	e.checks = e.checks[:2] // Without the walks, which the test of the pages has.
	verify(t, e, func(dir string) error {
		if err := features[0].apply(dir, solution); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := (exercise{checks: e.checks[:1]}).check(dir, &out); err == nil || !strings.Contains(out.String(), "Run: make generate") {
			t.Errorf("without make generate: %v\n%s", err, &out)
		}
		return inDir(dir, "hack/update-codegen.sh")
	}, "foo.Spec.Image undefined")
}
