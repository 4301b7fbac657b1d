// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/sample-controller/hack/check/doctest"
)

const root = "../../.."

// Unusual names: the module path is deep, the group's first label is not a Go identifier, and the kind has an acronym, two words, the article
// an, and an irregular plural.
const (
	newModule = "example.com/platform/teams/index-controller"
	newGroup  = "data-stores.example.org"
	newKind   = "SQLIndex"
	newPlural = "sqlindices"
)

// TestReadme creates the controller of the README by its command.
func TestReadme(t *testing.T) {
	setIdentity(t)
	arguments := regexp.MustCompile(`(?m)^make new DIR=\.\./(\S+) (.+)$`).FindStringSubmatch(read(t, root, "README.md"))
	if arguments == nil {
		t.Fatal("the README does not create a controller")
	}
	dir := filepath.Join(t.TempDir(), arguments[1])
	command(t, root, "make", append([]string{"new", "DIR=" + dir}, strings.Fields(arguments[2])...)...)
	leftOut := regexp.MustCompile(`(?i)\blab\b|doctest|test-docs|hack/check/monitoring|hack/learn/variants|test-variants|mutants|test-cluster|restore_test|RestoredEtcd|skew_test|snapshot\.go|fidelity|IsTrue|RandomWalks|exercises\.md|misconceptions`)
	for name, content := range textFiles(t, dir) {
		for line := range strings.Lines(name + "\n" + content) {
			if leftOut.MatchString(line) {
				t.Errorf("%s refers to what is left out: %s", name, line)
			}
		}
	}
	broken, err := doctest.CheckLinks(dir)
	if err != nil || len(broken) > 0 {
		t.Errorf("broken links: %q, %v", broken, err)
	}
	useLocalKubernetes(t)
	makeRun(t, dir)
	command(t, dir, "go", "-C", "hack/release", "test", "-count=1", "-short", "./...") // As .ci/run does.
	command(t, dir, "make", "image")
}

// TestUnusualNames creates a controller with unusual names, tests it as its author would, and follows the exercises.
func TestUnusualNames(t *testing.T) {
	setIdentity(t)
	dir := filepath.Join(t.TempDir(), "index-controller")
	if err := run(t.Context(), root, dir, input{newModule, newGroup, newKind, newPlural}); err != nil {
		t.Fatal(err)
	}
	if status := command(t, dir, "git", "status", "--short"); status != "" {
		t.Errorf("not committed:\n%s", status)
	}
	checkTraces(t, dir)
	useLocalKubernetes(t)
	makeRun(t, dir)
	command(t, dir, "make", "test", "lint", "verify-modules")
	if version := command(t, dir, ".build/bin/index-controller", "-version"); !strings.HasPrefix(version, "index-controller ") {
		t.Errorf("-version printed %q", version)
	}

	created := strings.TrimSpace(command(t, dir, "git", "rev-parse", "HEAD"))
	for _, paths := range pages() {
		for _, page := range paths {
			var out strings.Builder
			if err := follow(t.Context(), dir, page, &out); err != nil || !strings.Contains(out.String(), "make generate fmt") {
				t.Fatalf("%v\n%s", err, out.String())
			}
			command(t, dir, "make", "fmt") // It passes over files that the page removes, which are still in the index.
			command(t, dir, "git", "add", "--all")
			command(t, dir, "git", "commit", "--quiet", "--message", "Follow "+page)
		}
		command(t, dir, "make", "generate")
		command(t, dir, "go", "vet", "./...")
		if slices.Contains(paths, leaveOutTheRename) {
			checkRenameIsLeftOut(t, dir)
		}
		command(t, dir, "go", "test", "-vet=off", ".", "./pkg/...")
		if slices.Contains(paths, "docs/learn/replace-the-deployment.md") {
			command(t, dir, "make", "test-e2e")
		}
		command(t, dir, "git", "reset", "--quiet", "--hard", created)
		command(t, dir, "git", "clean", "--quiet", "--force", "-d")
	}
}

// checkRenameIsLeftOut fails unless the page says about how many lines less there are, the end-to-end tests compile, and nothing is left of the rename.
func checkRenameIsLeftOut(t *testing.T, dir string) {
	t.Helper()
	command(t, dir, "go", "-C", "hack/e2e", "vet", ".")
	lines := 0
	for line := range strings.Lines(command(t, dir, "git", "diff", "--numstat", "HEAD~", "--", ":!*zz_generated*", ":!pkg/generated", ":!*crd.yaml")) {
		var added, removed int
		if _, err := fmt.Sscan(line, &added, &removed); err != nil {
			t.Fatal(err)
		}
		lines += removed - added
	}
	if want := fmt.Sprintf("about %d lines less", (lines+25)/50*50); !strings.Contains(strings.Join(strings.Fields(read(t, dir, leaveOutTheRename)), " "), want) {
		t.Errorf("%s does not say %q", leaveOutTheRename, want)
	}
	if left, _ := exec.Command("git", "-C", dir, "grep", "-niE", "supersede|prune|takes?over", "--", "*.go", "artifacts", ":!hack/simulation/apiserver").Output(); len(left) > 0 {
		t.Errorf("left of the rename:\n%s", left)
	}
}

// useLocalKubernetes makes new controllers use the local Kubernetes of this repository, which is the same, and is not built again.
func useLocalKubernetes(t *testing.T) {
	t.Helper()
	built, err := filepath.Abs(root + "/.build/bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", built)
}

// makeRun runs make run until the Deployment of the example is available, and then interrupts it like Ctrl-C.
func makeRun(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := exec.CommandContext(ctx, "make", "run")
	command.Dir = dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	available := regexp.MustCompile(`(?m)^deployment\.apps/example-\w+ +1/1 `)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(&output, lines.Text())
		if available.MatchString(lines.Text()) {
			cancel()
		}
	}
	err = command.Wait()
	if !available.MatchString(output.String()) {
		t.Fatalf("make run: %v\n%s", err, output.String())
	}
}

// textFiles returns the contents of all tracked files except checksums.
func textFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := trackedFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, f := range files {
		if filepath.Ext(f.path) != ".sum" {
			contents[f.path] = string(f.content)
		}
	}
	return contents
}

// checkTraces fails if an old name is left anywhere but in one line of the README. It ignores checksums and, in
// generated code, "memory footprint" and the OpenAPI definitions of Kubernetes.
func checkTraces(t *testing.T, dir string) {
	t.Helper()
	trace := regexp.MustCompile(`(?i)foo|sample`)
	provenance := 0
	for name, content := range textFiles(t, dir) {
		if name == "pkg/generated/openapi/zz_generated.openapi.go" {
			continue
		}
		for line := range strings.Lines(name + "\n" + strings.ReplaceAll(content, "memory footprint", "")) {
			switch {
			case !trace.MatchString(line):
			case name == "README.md" && strings.HasPrefix(line, "Based on "):
				provenance++
			default:
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	if provenance != 1 {
		t.Errorf("the README has %d lines with the provenance, want 1", provenance)
	}
}

func TestInvalidInput(t *testing.T) {
	setIdentity(t)
	parent := t.TempDir()
	for name, content := range map[string]string{"full/file": "", "file": ""} {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ dir, module, group, kind, plural, want string }{
		"no directory":                 {"", newModule, newGroup, newKind, newPlural, "DIR="},
		"directory not empty":          {parent + "/full", newModule, newGroup, newKind, newPlural, "not empty"},
		"directory is a file":          {parent + "/file", newModule, newGroup, newKind, newPlural, "not a directory"},
		"parent directory missing":     {parent + "/missing/new", newModule, newGroup, newKind, newPlural, "DIR="},
		"directory in this repository": {root + "/pkg/new", newModule, newGroup, newKind, newPlural, "inside this repository"},
		"required module":              {parent + "/new", "k8s.io/client-go", newGroup, newKind, newPlural, "requires"},
		"binary named as directory":    {parent + "/new", "example.com/artifacts", newGroup, newKind, newPlural, "directory artifacts"},
		"factory method in use":        {parent + "/new", newModule, "start.example.com", newKind, newPlural, "identifier Start"},
		"type in use":                  {parent + "/new", newModule, newGroup, "GroupVersion", "", "identifier GroupVersion"},
		"field in use":                 {parent + "/new", newModule, newGroup, "Spec", "", "identifier Spec"},
		"generated file":               {parent + "/new", newModule, newGroup, "Doc", "", "both"},
		"platform-specific file":       {parent + "/new", newModule, newGroup, "Windows", "", "one platform"},
		"test file":                    {parent + "/new", newModule, newGroup, "Test", "", "as a test"},
	} {
		t.Run(name, func(t *testing.T) {
			wantOneLine(t, run(t.Context(), root, test.dir, input{test.module, test.group, test.kind, test.plural}), test.want)
		})
	}
	if got := command(t, parent, "ls", "-A"); got != "file\nfull\n" {
		t.Errorf("unexpected files:\n%s", got)
	}
}

// In a copy of this repository without git, and where git is not installed.
func TestWithoutGit(t *testing.T) {
	setIdentity(t)
	copied := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(copied))
	in := input{newModule, newGroup, newKind, newPlural}
	wantOneLine(t, run(t.Context(), copied, filepath.Join(t.TempDir(), "new"), in), "clone of this repository")
	t.Setenv("PATH", copied)
	wantOneLine(t, run(t.Context(), root, filepath.Join(t.TempDir(), "new"), in), "install git")
}

func TestFailureLeavesNothingBehind(t *testing.T) {
	setIdentity(t)
	n := archivePlanNames(t)
	parent := t.TempDir()
	broken := []file{{path: "hack/update-codegen.sh", mode: 0o755, content: []byte("#!/bin/sh\nexit 1\n")}}
	if err := write(t.Context(), root, filepath.Join(parent, "new"), broken, n, input{}); err == nil {
		t.Error("error = nil, want one of the broken script")
	}
	if got := command(t, parent, "ls", "-A"); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// setIdentity configures git's identity, which a fresh machine does not have.
func setIdentity(t *testing.T) {
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+role+"_NAME", "Tester")
		t.Setenv("GIT_"+role+"_EMAIL", "tester@example.com")
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command.Args, err, output)
	}
	return string(output)
}
