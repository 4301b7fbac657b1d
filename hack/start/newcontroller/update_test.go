// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpdate updates a controller that was created three commits ago, and whose author has since edited all files, also some that are kept.
func TestUpdate(t *testing.T) {
	setIdentity(t)
	source, dir := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "index-controller")
	command(t, root, "git", "clone", "--quiet", ".", source)
	if err := run(t.Context(), source, dir, input{newModule, newGroup, newKind, newPlural}); err != nil {
		t.Fatal(err)
	}
	const electionPackage, edit = "// Package election", "\nThe author's.\n"
	files, err := trackedFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if isYours := !f.isIn(kept...) && !f.generated() && f.path != originPath && f.path != keptPath; isYours {
			f.content = append(f.content, edit...)
			if err := f.write(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(t, dir, "hack/run.sh", "# The demo", "# Our demo")
	change(t, dir, "pkg/election/election.go", electionPackage, "// The author's.\n"+electionPackage)
	command(t, dir, "git", "mv", "hack/cluster/pki.go", "hack/cluster/certificates.go")
	command(t, dir, "git", "commit", "--quiet", "--message", "Rename a file that is kept")

	change(t, source, "controller.go", "func labelsFor", "// Changed: foo.\nfunc labelsFor")
	change(t, source, "hack/run.sh", "# The demo", "# This is the demo")
	change(t, source, "pkg/election/election.go", electionPackage, "// Changed.\n"+electionPackage)
	command(t, source, "git", "rm", "--quiet", "hack/cluster/audit.go", "docs/reference/compatibility.md")
	command(t, source, "git", "commit", "--quiet", "--message", "Remove two files")

	var out strings.Builder
	if err := update(t.Context(), source, dir, &out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"controller.go":            "// Changed: sqlindex.\nfunc labelsFor",
		"pkg/election/election.go": "// Changed.\n" + electionPackage,
		originPath:                 "COMMIT=" + command(t, source, "git", "rev-parse", "HEAD"),
	} {
		if got := read(t, dir, name); !strings.Contains(got, want) || strings.Contains(got, "<<<<<<<") {
			t.Errorf("%s has conflicts, or does not contain %q", name, want)
		}
	}
	if !strings.HasSuffix(read(t, dir, "controller.go"), edit) {
		t.Error("the author's change is lost")
	}
	if got := command(t, dir, "hack/verify-kept.sh"); got != "" {
		t.Errorf("what is kept is not as it was created: %s", got)
	}
	const wantOverwritten = "were edited:\nhack/cluster/certificates.go\nhack/cluster/pki.go\npkg/election/election.go\n"
	const wantConflicts = "Resolve the conflicts in:\ndocs/reference/compatibility.md\nhack/run.sh\n\n"
	if got := out.String(); !strings.Contains(got, "+// Changed: sqlindex.") || !strings.Contains(got, wantOverwritten) || !strings.Contains(got, wantConflicts) {
		t.Errorf("want the changes to controller.go, what was overwritten, and the conflicts:\n%s", got)
	}
	if got := out.String(); strings.Contains(got, "This is the demo") {
		t.Errorf("want no changes to hack/run.sh:\n%s", got)
	}
	wantOneLine(t, update(t.Context(), source, dir, &out), "commit your changes first")
}

// What was created with FULL=1, as make new had it, is updated to what a controller gets now.
func TestOriginWithFull(t *testing.T) {
	dir := t.TempDir()
	if err := (file{path: originPath, mode: 0o644, content: []byte("COMMIT=1\nMODULE=m\nGROUP=g\nKIND=K\nPLURAL=\nFULL=1\n")}).write(dir); err != nil {
		t.Fatal(err)
	}
	if commit, in, err := readOrigin(dir); commit != "1" || in != (input{"m", "g", "K", ""}) || err != nil {
		t.Errorf("readOrigin() = %q, %v, %v, want what make new takes now", commit, in, err)
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
