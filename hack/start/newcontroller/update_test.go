// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpdate updates a controller that was created from an older commit, and whose author has changed it since.
func TestUpdate(t *testing.T) {
	setIdentity(t)
	source, dir := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "index-controller")
	command(t, root, "git", "clone", "--quiet", ".", source)
	if err := run(t.Context(), source, dir, input{newModule, newGroup, newKind, newPlural}); err != nil {
		t.Fatal(err)
	}
	change(t, dir, "controller.go", "// FieldManager is", "// The author's.\n\t// FieldManager is")
	change(t, source, "controller.go", "func labelsFor", "// Changed: foo.\nfunc labelsFor")
	change(t, source, "hack/run.sh", "# The demo", "# This is the demo")
	command(t, source, "git", "rm", "--quiet", "LICENSE")
	command(t, source, "git", "commit", "--quiet", "--message", "Remove a file")

	var out strings.Builder
	if err := update(t.Context(), source, dir, &out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"controller.go": "// Changed: sqlindex.\nfunc labelsFor",
		"hack/run.sh":   "# This is the demo",
		originPath:      "COMMIT=" + command(t, source, "git", "rev-parse", "HEAD"),
	} {
		if got := read(t, dir, name); !strings.Contains(got, want) {
			t.Errorf("%s does not contain %q", name, want)
		}
	}
	if !strings.Contains(read(t, dir, "controller.go"), "// The author's.") {
		t.Error("the author's change is lost")
	}
	if got := command(t, dir, "git", "status", "--short"); got != "M  .origin\nD  LICENSE\nM  controller.go\nM  hack/run.sh\n" {
		t.Errorf("git status:\n%s", got)
	}
	if got := out.String(); !strings.Contains(got, "+// Changed: sqlindex.") || strings.Contains(got, "This is the demo") {
		t.Errorf("want the changes to controller.go only:\n%s", got)
	}
	wantOneLine(t, update(t.Context(), source, dir, &out), "commit your changes first")

	command(t, dir, "git", "reset", "--quiet", "--hard")
	change(t, dir, "hack/run.sh", "# The demo", "# Our demo")
	if err := update(t.Context(), source, dir, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "Resolve the conflicts in:\nhack/run.sh\n") {
		t.Errorf("want a conflict:\n%s", got)
	}
}

// change replaces a text in a file and commits that.
func change(t *testing.T, dir, name, old, replacement string) {
	t.Helper()
	content := read(t, dir, name)
	changed := strings.Replace(content, old, replacement, 1)
	if changed == content {
		t.Fatalf("%s does not contain %q", name, old)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(changed), 0); err != nil { // Its mode stays.
		t.Fatal(err)
	}
	command(t, dir, "git", "commit", "--quiet", "--all", "--message", "Change "+name)
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
