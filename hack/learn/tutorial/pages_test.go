// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package tutorial

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the stories to the pages, and the differences to files")

// block is what is generated in a page: the text between a comment and the next one.
var block = regexp.MustCompile(`(?s)<!-- (story|imports) -->\n.*?<!-- end -->\n`)

// TestPages verifies that the pages of the tutorial have the stories and the imports of its stages, and the files that they link what a
// stage changes in the one before.
func TestPages(t *testing.T) {
	for stage := 2; stage <= 9; stage++ {
		path := fmt.Sprintf("../../../docs/learn/tutorial/stage%d.md", stage)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := 0
		want := block.ReplaceAllStringFunc(string(content), func(old string) string {
			blocks++
			generate := map[string]func(*testing.T, int) string{"story": storyOf, "imports": newImports}
			kind := block.FindStringSubmatch(old)[1]
			return fmt.Sprintf("<!-- %s -->\n%s<!-- end -->\n", kind, generate[kind](t, stage))
		})
		if blocks == 0 {
			t.Errorf("%s has nothing that is generated", path)
		}
		verifyFile(t, path, want)
		verifyFile(t, fmt.Sprintf("changes/%d.diff", stage), difference(t, stage))
	}
}

// verifyFile verifies what a file has, or writes it.
func verifyFile(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != want {
		t.Errorf("%s is out of date: run make tutorial-docs", path)
	}
}

// storyOf returns the story that a stage corrects.
func storyOf(t *testing.T, stage int) string {
	t.Helper()
	story, err := os.ReadFile(fmt.Sprintf("stories/%d.txt", stage))
	if err != nil {
		t.Fatal(err)
	}
	return "```text\n" + string(story) + "```\n"
}

var imported = regexp.MustCompile(`(?m)^\t(\w+ )?"[\w./-]+"\n`)

// newImports returns what a stage imports, and the one before does not.
func newImports(t *testing.T, stage int) string {
	t.Helper()
	before, err := os.ReadFile(fmt.Sprintf("stage%d/main.go", stage-1))
	if err != nil {
		t.Fatal(err)
	}
	current, err := os.ReadFile(fmt.Sprintf("stage%d/main.go", stage))
	if err != nil {
		t.Fatal(err)
	}
	added := slices.DeleteFunc(imported.FindAllString(string(current), -1), func(line string) bool {
		return strings.Contains(string(before), line)
	})
	return "```go\nimport (\n" + strings.Join(added, "") + ")\n```\n"
}

// difference returns what a stage changes in the one before, without the imports and the first comment.
func difference(t *testing.T, stage int) string {
	t.Helper()
	before, current := fmt.Sprintf("stage%d/main.go", stage-1), fmt.Sprintf("stage%d/main.go", stage)
	output, err := exec.Command("git", "diff", "--no-index", "--no-color", "--no-ext-diff", "-U2", "--", before, current).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("git diff: %v", err)
	}
	var text strings.Builder
	text.WriteString("--- " + before + "\n+++ " + current + "\n")
	hunks := strings.Split("\n"+string(output), "\n@@ ")
	for _, hunk := range hunks[1:] {
		_, lines, _ := strings.Cut(hunk, "\n")
		if isImport(lines) {
			continue
		}
		text.WriteString("@@\n" + strings.TrimRight(lines, "\n") + "\n")
	}
	return text.String()
}

// isImport reports whether a hunk changes nothing but imports and the comment on the package.
func isImport(lines string) bool {
	for line := range strings.Lines(lines) {
		text := strings.TrimSpace(strings.TrimLeft(line, "+-"))
		isChanged := strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")
		if isChanged && text != "" && !strings.HasPrefix(text, "// Command") && !strings.HasSuffix(text, `"`) {
			return false
		}
	}
	return true
}
