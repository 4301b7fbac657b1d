// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
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
		"left out: write(a)", "negated: a < b", ">= instead of <: a < b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if string(mutants[5].content[:20]) != content[:20] || mutants[5].line != 7 {
		t.Errorf("line %d", mutants[5].line)
	}
}
