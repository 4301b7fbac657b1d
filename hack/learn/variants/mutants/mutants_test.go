// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMutantsOf(t *testing.T) {
	const content = `package p

func f(a, b int) {
	defer done()
	if a > 0 && b == 1 {
		logger.Info("so")
		write(a)
	}
	switch {
	case a < b:
	}
	switch a {
	case 1:
	}
}
`
	mutants, err := mutantsOf("p.go", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		if string(m.content) == content {
			t.Errorf("%s: it changes nothing", m.what)
		}
		got = append(got, m.what)
	}
	want := []string{
		"left out: defer done()", "negated: a > 0 && b == 1", "|| instead of &&: a > 0 && b == 1", "<= instead of >: a > 0", "!= instead of ==: b == 1",
		"left out: write(a)", ">= instead of <: a < b",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%q, want\n%q", got, want)
	}
	for n, want := range map[int]struct {
		line          int
		before, after string
	}{1: {5, "a > 0 && b == 1", "!(a > 0 && b == 1)"}, 2: {5, "&&", "||"}, 5: {7, "write(a)", ""}} {
		if got := mutants[n]; got.line != want.line || string(got.content) != strings.Replace(content, want.before, want.after, 1) {
			t.Errorf("%s, line %d:\n%s", got.what, got.line, got.content)
		}
	}
}
