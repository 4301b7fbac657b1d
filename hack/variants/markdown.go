// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const introduction = `# What each line is for

The controller would be shorter without the lines on this page, and it would still work, most of the time. Each section leaves one thing out and
shows the difference in the code, what happens, the test that fails, and the invariant that the
[simulation](testing.md#simulation) finds broken. The traces are excerpts from the [lab](../hack/lab/README.md): seconds, the part of the
controller, the informer, and what happened there. ` + "`make test-variants`" + ` applies each difference to the code as it is now, and verifies that
its test fails with it and passes without it, and that the simulation notices it within a minute, without the test.

<!-- Generated from hack/variants/catalogue by make lab-docs. -->

| what the controller does | test | invariant |
|---|---|---|
`

// Markdown returns the document that explains what each line is for. root is the repository, which has the tests.
func Markdown(root string) (string, error) {
	all, err := All()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(introduction)
	anchors, references := Anchors(all), map[string]string{}
	for i, v := range all {
		if references[v.ID], err = v.Test.reference(root); err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "| [%d. %s](#%s) | %s | %s |\n", i+1, v.Title, anchors[v.ID], references[v.ID], v.Invariant)
	}
	for i, v := range all {
		fmt.Fprintf(&text, "\n## %d. %s\n\n**%s**\n\n%s\n\n```diff\n%s```\n\n```text\n%s```\n\n- The promise: %s\n- The invariant: %s\n- The test: %s. For the variant it says:\n\n```text\n%s\n```\n",
			i+1, v.Title, v.Question, v.Seen, v.Diff, v.Trace, v.Promise, v.Invariant, references[v.ID], v.Test.Says)
	}
	return text.String(), nil
}

// reference returns the file that declares the test, the test, and the case in it.
func (t Test) reference(root string) (string, error) {
	function, subtest, _ := strings.Cut(t.Name, "/")
	files, err := filepath.Glob(filepath.Join(root, t.Package, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(content), "\nfunc "+function+"(") {
			continue
		}
		reference := fmt.Sprintf("`%s: %s`", filepath.ToSlash(filepath.Join(t.Package, filepath.Base(file))), function)
		if subtest != "" {
			reference += ", " + strings.ReplaceAll(subtest, "_", " ")
		}
		return reference, nil
	}
	return "", fmt.Errorf("%s: no file declares %s", t.Package, function)
}

// Anchors returns the anchors of the sections of the document, by the IDs of their variants.
func Anchors(all []Variant) map[string]string {
	anchors := map[string]string{}
	for i, v := range all {
		anchors[v.ID] = anchor(fmt.Sprintf("%d. %s", i+1, v.Title))
	}
	return anchors
}

// anchor returns the anchor that GitHub gives a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune("-_", r), '0' <= r && r <= '9', 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}
