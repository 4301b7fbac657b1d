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

var update = flag.Bool("update", false, "write the stories and the differences to the pages")

// block is what is generated in a page: the text between a comment and the next one.
var block = regexp.MustCompile(`(?s)<!-- (story|imports|diff) -->\n.*?<!-- end -->\n`)

// TestPages verifies that the pages of the tutorial have the stories and the differences of its stages.
func TestPages(t *testing.T) {
	for stage := 1; stage <= 9; stage++ {
		path := fmt.Sprintf("../../../docs/learn/tutorial/stage%d.md", stage)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := 0
		want := block.ReplaceAllStringFunc(string(content), func(old string) string {
			blocks++
			generate := map[string]func(*testing.T, int) string{"story": storyOf, "imports": newImports, "diff": difference}
			kind := block.FindStringSubmatch(old)[1]
			return fmt.Sprintf("<!-- %s -->\n%s<!-- end -->\n", kind, generate[kind](t, stage))
		})
		if blocks == 0 {
			t.Errorf("%s has nothing that is generated", path)
		}
		switch {
		case want == string(content):
		case *update:
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is out of date: run make tutorial-docs", path)
		}
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

// difference returns what a stage changes in the one before, or all of the first stage.
func difference(t *testing.T, stage int) string {
	t.Helper()
	current := fmt.Sprintf("stage%d/main.go", stage)
	if stage == 1 {
		content, err := os.ReadFile(current)
		if err != nil {
			t.Fatal(err)
		}
		return "```go\n" + string(content) + "```\n"
	}
	// Without the imports and the first comment.
	output, err := exec.Command("git", "diff", "--no-index", "--no-color", "--no-ext-diff", "-U2", "--", fmt.Sprintf("stage%d/main.go", stage-1), current).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("git diff: %v", err)
	}
	var text strings.Builder
	hunks := strings.Split("\n"+string(output), "\n@@ ")
	for _, hunk := range hunks[1:] {
		_, lines, _ := strings.Cut(hunk, "\n")
		if isImport(lines) {
			continue
		}
		text.WriteString("@@\n" + strings.TrimRight(lines, "\n") + "\n")
	}
	return "```diff\n" + text.String() + "```\n"
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
