// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copyProject copies the parts of the project that are in git, with uncommitted changes, to a new directory without git.
func copyProject(t *testing.T, parts ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "project")
	list := output(t, root, "git", append([]string{"ls-files", "-z", "-co", "--exclude-standard", "--"}, parts...)...)
	for path := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, path), string(content))
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a command in a directory with more environment variables.
func run(t *testing.T, dir string, environment []string, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// make gives go the flags of the user, except for those that choose other modules than go.mod.
func TestGoFlags(t *testing.T) {
	dir := copyProject(t, "Makefile")
	write(t, filepath.Join(dir, "bin/go"), `#!/bin/sh
if [ "$*" = "env GOFLAGS" ]; then echo "$GOFLAGS"; else echo "go $1 GOWORK=$GOWORK GOFLAGS=$GOFLAGS"; fi`)
	path := "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")
	const own = "'-toolexec=env GOGC=off GOMEMLIMIT=1GiB'"
	for flags, want := range map[string]string{
		"":                     "-mod=readonly",
		own + " -mod=readonly": "-mod=readonly", // of a make that has started this one
		"-mod=vendor":          "-mod=readonly",
		"-trimpath --mod=mod":  "-trimpath -mod=readonly",
		"-modfile=other.mod -buildvcs=false -mod=mod -modcacherw": "-buildvcs=false -modcacherw -mod=readonly",
	} {
		got, err := run(t, dir, []string{path, "GOWORK=" + dir + "/go.work", "GOFLAGS=" + flags}, "make", "--silent", "build")
		if want := "go build GOWORK=off GOFLAGS=" + own + " " + want + "\n"; err != nil || got != want {
			t.Errorf("with GOFLAGS=%q: %q (%v), want %q", flags, got, err, want)
		}
	}
}

// The generators use the project's own modules in a workspace and with a vendor directory.
func TestGenerateInWorkspace(t *testing.T) {
	dir := copyProject(t, "go.mod", "go.sum", "pkg", "artifacts", "hack")
	write(t, filepath.Join(dir, "../go.work"), "go 1.26\n\nuse ./other\n")
	write(t, filepath.Join(dir, "../other/go.mod"), "module example.com/other\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "vendor/modules.txt"), "# example.com/other v1.0.0\n")
	if got, err := run(t, dir, []string{"GOWORK=", "GOFLAGS=-mod=vendor"}, "hack/verify-codegen.sh"); err != nil {
		t.Errorf("hack/verify-codegen.sh: %v\n%s", err, got)
	}
}

// A generator that fails leaves the generated files as they are.
func TestGenerateFails(t *testing.T) {
	dir := copyProject(t, "go.mod", "go.sum", "pkg", "artifacts", "hack")
	types := filepath.Join(dir, "pkg/apis/samplecontroller/v1alpha1/types.go")
	content, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	write(t, types, strings.Replace(string(content), "\ntype FooSpec struct", "\n// +kubebuilder:validation:Minimum=none\ntype FooSpec struct", 1))
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}} {
		output(t, dir, "git", args...)
	}
	if got, err := run(t, dir, nil, "hack/update-codegen.sh"); err == nil {
		t.Errorf("hack/update-codegen.sh succeeds with an illegal marker:\n%s", got)
	}
	if changes := output(t, dir, "git", "ls-files", "--modified", "--others"); changes != "" {
		t.Errorf("hack/update-codegen.sh fails, and has changed:\n%s", changes)
	}
}

// Targets that need git say so in a copy without it, and where git is not installed.
func TestWithoutGit(t *testing.T) {
	dir := copyProject(t, "Makefile")
	for _, target := range []string{"verify", "fmt"} {
		got, err := run(t, dir, []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}, "make", "--silent", target)
		line, rest, _ := strings.Cut(got, "\n")
		if err == nil || !strings.Contains(line, "use a clone") || !strings.HasPrefix(rest, "make") {
			t.Errorf("make %s: %v\n%s\nwant one line that says what to do, and that of make", target, err, got)
		}
	}
}
