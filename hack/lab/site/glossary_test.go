// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"regexp"
	"testing"
)

func TestNewTerm(t *testing.T) {
	for paragraph, want := range map[string]term{
		"A [queue](#queue).\n*Not* a `list`.\n":                             {"A queue. Not a list.", []string{}},
		"It waits (`a.go: wait`), and\nthen (`a.go: b, c`; `d/e.go: f`).\n": {"It waits, and then.", []string{"a.go: wait", "a.go: b, c", "d/e.go: f"}},
		"Then `a.go: handle` is called.\n":                                  {"Then handle is called.", []string{"a.go: handle"}},
	} {
		if got := newTerm(paragraph); !reflect.DeepEqual(got, want) {
			t.Errorf("newTerm(%q) = %+v, want %+v", paragraph, got, want)
		}
	}
}

// Each term that the page offers for a stop of the picture has a section in the glossary.
func TestTermsOfStops(t *testing.T) {
	terms, err := readGlossary(root)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../page/glossary.js")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, list := range regexp.MustCompile(`terms: \[([^\]]*)\]`).FindAllStringSubmatch(string(script), -1) {
		for _, name := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list[1], -1) {
			count++
			if terms[name[1]].Text == "" {
				t.Errorf("%s has no section %q", glossaryFile, name[1])
			}
		}
	}
	if count == 0 {
		t.Error("glossary.js has no terms")
	}
}
