// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFollowByHand follows a page of which one diff no longer fits: nothing changes. That it works otherwise, TestUnusualNames shows.
func TestFollowByHand(t *testing.T) {
	setIdentity(t)
	dir := t.TempDir()
	command(t, dir, "git", "init", "--quiet")
	diff := func(from, to string) string {
		return "```diff\n--- a/main.go\n+++ b/main.go\n@@\n-" + from + "\n+" + to + "\n--- /dev/null\n+++ b/new.go\n@@\n+package main\n```\n\n"
	}
	for path, content := range map[string]string{
		originPath: "COMMIT=1\n", leaveOutTheRename: diff("package main", "package other") + diff("var edited int", "var edited bool"), "main.go": "package main\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantOneLine(t, follow(t.Context(), dir, leaveOutTheRename, io.Discard), "commit your changes first")
	command(t, dir, "git", "add", "--all")
	command(t, dir, "git", "commit", "--quiet", "--message", "Create")
	err := follow(t.Context(), dir, leaveOutTheRename, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the lines of a hunk do not occur") || !strings.Contains(err.Error(), "Nothing has changed") {
		t.Errorf("error = %v, want one that says what does not fit", err)
	}
	if status := command(t, dir, "git", "status", "--short"); status != "" {
		t.Errorf("it has changed:\n%s", status)
	}
	wantOneLine(t, follow(t.Context(), dir, "docs/learn/other.md", io.Discard), "PAGE=docs/learn/other.md: must be one of")
	wantOneLine(t, follow(t.Context(), dir, pages()[0][0], io.Discard), "has no such page")
	wantOneLine(t, follow(t.Context(), t.TempDir(), leaveOutTheRename, io.Discard), "not created by make new")
}
