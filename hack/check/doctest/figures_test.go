// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"strings"
	"testing"
)

// TestFigures compares the figures in docs with the files that make bench writes.
func TestFigures(t *testing.T) {
	var results, documents []*document
	for _, d := range readDocuments(t) {
		if strings.HasPrefix(d.path, "hack/check/bench/") {
			results = append(results, d)
		} else {
			documents = append(documents, d)
		}
	}
	equal, problems := checkFigures(results, documents)
	for _, problem := range problems {
		t.Error(problem)
	}
	if equal == 0 {
		t.Error("no document has a figure of the benchmark")
	}
}

func TestWrongFigures(t *testing.T) {
	const results = "| Foos | workers | program | new, Foos/s | memory, MB |\n|---|---|---|---|---|\n" +
		"| 1 | 2 | floor | 216 | - |\n| 1 | 2 | ours | 207 | 108 |\n"
	for text, want := range map[string]struct {
		equal    int
		problems int
	}{
		"| Foos | workers | program | memory, MB |\n|---|---|---|---|\n| 1 | 2 | ours | 108 |\n":                      {equal: 1},
		"| program | new, Foos/s | Foos | workers |\n|---|---|---|---|\n| ours | 207 | 1 | 2 |\n":                     {equal: 1},
		"| Foos | workers | program | memory, MB |\n|---|---|---|---|\n| 1 | 2 | ours | 109 |\n":                      {problems: 1},
		"| Foos | workers | program | memory, MB |\n|---|---|---|---|\n| 1 | 16 | ours | 108 |\n":                     {problems: 1},
		"| Foos | workers | program | memory, GB |\n|---|---|---|---|\n| 1 | 2 | ours | 108 |\n":                      {problems: 1},
		"| workers | program | memory, MB |\n|---|---|---|\n| 2 | ours | 109 |\n":                                     {},
		"| a |\n|---|\n| b |\n\n| Foos | workers | program | memory, MB |\n|---|---|---|---|\n| 1 | 2 | ours | 1 |\n": {problems: 1},
	} {
		_, documents := writeDocuments(t, map[string]string{"docs/a.md": text})
		result, err := parse("results.md", results)
		if err != nil {
			t.Fatal(err)
		}
		equal, problems := checkFigures([]*document{result}, documents)
		if equal != want.equal || len(problems) != want.problems {
			t.Errorf("checkFigures() = %d, %q for\n%s\nwant %d equal, %d problems", equal, problems, text, want.equal, want.problems)
		}
	}
}
