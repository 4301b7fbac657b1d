// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// A program that compiles quickly.
	goMod  = "module example.com/program\n\ngo 1.26.0\n"
	mainGo = "package main\n\nfunc main() {}\n"
)

func TestInvalidInput(t *testing.T) {
	for name, test := range map[string]struct {
		version, image string
		prepare        func(t *testing.T, dir string) string
		want           string
	}{
		"no version":          {version: "", want: "VERSION= is required"},
		"no v":                {version: "1.2.3", want: "must be a semantic version"},
		"two numbers":         {version: "v1.2", want: "must be a semantic version"},
		"leading zero":        {version: "v1.02.3", want: "must be a semantic version"},
		"branch":              {version: "main", want: "must be a semantic version"},
		"build metadata":      {version: "v1.2.3+linux", want: "without build metadata"},
		"other major version": {version: "v2.0.0", want: "for another major version"},
		"too long for a tag":  {version: "v1.2.3-" + strings.Repeat("a", 128), want: "cannot be the tag of an image"},
		"image with tag":      {version: "v1.2.3", image: "controller:v1", want: "without tag"},
		"image with digest":   {version: "v1.2.3", image: "controller@sha256:" + strings.Repeat("0", 64), want: "without tag and digest"},
		"image in upper case": {version: "v1.2.3", image: "example.com/Team/controller", want: "must be lowercase"},
		"image with protocol": {version: "v1.2.3", image: "https://example.com/controller", want: "IMAGE="},
		"no image":            {version: "v1.2.3", image: "-", want: "IMAGE="},
		"no repository":       {version: "v1.2.3", prepare: removeGit, want: "a release is built from a commit"},
		"no commit":           {version: "v1.2.3", prepare: removeCommit, want: "a release is built from a commit"},
		"changed file":        {version: "v1.2.3", prepare: write("main.go", mainGo+"\n// Changed.\n"), want: `1 files, such as "M main.go"`},
		"staged file":         {version: "v1.2.3", prepare: stage, want: `1 files, such as "A  new.go"`},
		"untracked file":      {version: "v1.2.3", prepare: write("new.go", mainGo), want: `1 files, such as "?? new.go"`},
		"tag on other commit": {version: "v1.0.0", want: "the tag is on another commit; run: git checkout v1.0.0"},
		"annotated tag":       {version: "v1.1.0", want: "the tag is on another commit"},
		"shallow clone":       {version: "v1.2.3", prepare: shallowClone, want: "git fetch --unshallow --tags"},
		"no module":           {version: "v1.2.3", prepare: func(t *testing.T, dir string) string { return t.TempDir() }, want: "go.mod"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newProgram(t)
			if test.prepare != nil {
				dir = test.prepare(t, dir)
			}
			image := test.image
			switch image {
			case "":
				image = "controller"
			case "-":
				image = ""
			}
			err := run(t.Context(), dir, test.version, image, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line with %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, distDir)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s exists: %v", distDir, err)
			}
		})
	}
}

func TestFailureKeepsFormerRelease(t *testing.T) {
	dir := newProgram(t)
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() { undefined() }\n"), 0o644))
	commit(t, dir, "Break the build")
	must(t, os.Mkdir(filepath.Join(dir, distDir), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, distDir, "former"), nil, 0o644))

	var progress strings.Builder
	err := run(t.Context(), dir, "v1.2.3", "controller", &progress)
	if err == nil || err.Error() != "compiling for linux/amd64 failed: exit status 1" {
		t.Errorf("error = %v, want that of the compiler", err)
	}
	if !strings.Contains(progress.String(), "undefined: undefined") {
		t.Errorf("progress = %q, want the compiler's error", progress.String())
	}
	readFile(t, dir, distDir, "former")
	if left := names(t, filepath.Join(dir, ".build")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestPreviousVersion(t *testing.T) {
	tags := []string{"v1.0.0", "v1.9.0", "v1.10.0-rc.1", "v1.10.0-rc.2", "v1.10.0", "v1.11.0", "v1.20", "latest", "1.10.1"}
	for version, want := range map[string]string{
		"v0.1.0":       "",
		"v1.0.1":       "v1.0.0",
		"v1.10.0-rc.1": "v1.9.0",
		"v1.10.0-rc.2": "v1.10.0-rc.1",
		"v1.10.0":      "v1.9.0",
		"v1.10.1":      "v1.10.0",
		"v1.12.0":      "v1.11.0",
	} {
		if got := previousVersion(tags, version); got != want {
			t.Errorf("%s: previous version = %q, want %q", version, got, want)
		}
	}
}

// newProgram returns a git repository with a Go program, the tags v1.0.0 and v1.1.0 (annotated), and a commit after them.
func newProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "--quiet")
	for path, content := range map[string]string{"go.mod": goMod, "main.go": mainGo, ".gitignore": "/.build/\n/dist/\n"} {
		must(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644))
	}
	commit(t, dir, "Start")
	runGit(t, dir, "tag", "v1.0.0")
	runGit(t, dir, "tag", "--annotate", "--message=Second", "v1.1.0")
	commit(t, dir, "Go on")
	return dir
}

func removeGit(t *testing.T, dir string) string {
	must(t, os.RemoveAll(filepath.Join(dir, ".git")))
	return dir
}

func removeCommit(t *testing.T, dir string) string {
	removeGit(t, dir)
	runGit(t, dir, "init", "--quiet")
	return dir
}

func write(path, content string) func(*testing.T, string) string {
	return func(t *testing.T, dir string) string {
		must(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644))
		return dir
	}
}

func stage(t *testing.T, dir string) string {
	write("new.go", mainGo)(t, dir)
	runGit(t, dir, "add", ".")
	return dir
}

func shallowClone(t *testing.T, dir string) string {
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, dir, "clone", "--quiet", "--depth=1", "file://"+dir, clone)
	return clone
}

func commit(t *testing.T, dir, subject string) {
	t.Helper()
	runGit(t, dir, "add", "--all")
	runGit(t, dir, "commit", "--quiet", "--allow-empty", "--message="+subject)
}

// runGit runs git without the user's configuration. Equal commits get equal hashes.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+role+"_NAME=A", "GIT_"+role+"_EMAIL=a@example.com", "GIT_"+role+"_DATE="+commitTime)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return slices.Clip(names)
}
