// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/doctest"
)

const root = "../.."

// The kind has two words and an irregular plural, the module path is deep, and the group's first label is not a Go identifier.
const (
	newModule = "example.com/platform/teams/pest-control"
	newGroup  = "farm-animals.example.org"
	newKind   = "FieldMouse"
	newPlural = "fieldmice"
)

func TestNewController(t *testing.T) {
	dir := newRepository(t, false)
	leftOut := regexp.MustCompile(`(?i)\blab\b|doctest|test-docs|hack/monitoring|hack/variants|test-variants|exercises\.md|why\.md|FULL=1`)
	for name, content := range trackedFiles(t, dir) {
		for line := range strings.Lines(name + "\n" + content) {
			if leftOut.MatchString(line) {
				t.Errorf("%s refers to what is only there with FULL=1: %s", name, line)
			}
		}
	}
	broken, err := doctest.CheckLinks(dir)
	if err != nil || len(broken) > 0 {
		t.Errorf("broken links: %q, %v", broken, err)
	}
	command(t, filepath.Join(dir, "hack/release"), "go", "test", "-run", "TestChart", ".")

	if err := doctest.ApplyExercises(dir); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"generate", "test-unit"} {
		command(t, dir, "make", target)
	}
}

func TestFullNewController(t *testing.T) {
	dir := newRepository(t, true)
	command(t, dir, "make", "test-monitoring")
	command(t, filepath.Join(dir, "hack/doctest"), "go", "test", "-run", "TestLinks|TestReferences", ".")
}

// newRepository creates a repository, and tests what all new ones have in common.
func newRepository(t *testing.T, full bool) (dir string) {
	t.Helper()
	setIdentity(t)
	dir = filepath.Join(t.TempDir(), "pest-control")
	if err := run(t.Context(), root, dir, input{newModule, newGroup, newKind, newPlural, full}); err != nil {
		t.Fatal(err)
	}
	if status := command(t, dir, "git", "status", "--short"); status != "" {
		t.Errorf("not committed:\n%s", status)
	}
	checkTraces(t, dir)
	for _, target := range []string{"build", "test-unit", "verify", "verify-modules"} {
		command(t, dir, "make", target)
	}
	for module := range strings.FieldsSeq(command(t, dir, "git", "ls-files", "*/go.mod")) {
		if module := filepath.Dir(module); module != "hack/tools" && module != "hack/cluster/controlplane" {
			command(t, filepath.Join(dir, module), "go", "vet", "./...")
		}
	}
	command(t, dir, "go", "tool", "-modfile=hack/tools/go.mod", "actionlint", "-shellcheck=", "-pyflakes=")
	if version := command(t, dir, ".build/bin/pest-control", "-version"); !strings.HasPrefix(version, "pest-control ") {
		t.Errorf("-version printed %q", version)
	}
	return dir
}

// trackedFiles returns the contents of all tracked files except checksums.
func trackedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name := range strings.FieldsSeq(command(t, dir, "git", "ls-files")) {
		if filepath.Ext(name) == ".sum" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
	}
	return files
}

// checkTraces fails if an old name is left anywhere but in one line of the README. It ignores checksums, and "memory footprint"
// in generated code.
func checkTraces(t *testing.T, dir string) {
	t.Helper()
	trace := regexp.MustCompile(`(?i)foo|sample`)
	provenance := 0
	for name, content := range trackedFiles(t, dir) {
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
		"keyword":                      {parent + "/new", newModule, newGroup, "Map", "", "identifier map"},
		"predeclared name":             {parent + "/new", newModule, newGroup, "Error", "", "identifier error"},
		"variable in use":              {parent + "/new", newModule, newGroup, "Object", "", "identifier object"},
		"import alias in use":          {parent + "/new", newModule, "kube.example.com", newKind, newPlural, "identifier kube"},
		"factory method in use":        {parent + "/new", newModule, "start.example.com", newKind, newPlural, "identifier Start"},
		"type in use":                  {parent + "/new", newModule, newGroup, "GroupVersion", "", "identifier GroupVersion"},
		"generated file":               {parent + "/new", newModule, newGroup, "Doc", "", "both"},
		"platform-specific file":       {parent + "/new", newModule, newGroup, "Windows", "", "one platform"},
		"test file":                    {parent + "/new", newModule, newGroup, "Test", "", "as a test"},
	} {
		t.Run(name, func(t *testing.T) {
			wantOneLine(t, run(t.Context(), root, test.dir, input{test.module, test.group, test.kind, test.plural, false}), test.want)
		})
	}
	if got := command(t, parent, "ls", "-A"); got != "file\nfull\n" {
		t.Errorf("unexpected files:\n%s", got)
	}
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
