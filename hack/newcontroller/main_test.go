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
	setIdentity(t)
	dir := filepath.Join(t.TempDir(), "pest-control")
	if err := run(t.Context(), root, dir, newModule, newGroup, newKind, newPlural); err != nil {
		t.Fatal(err)
	}
	if status := command(t, dir, "git", "status", "--short"); status != "" {
		t.Errorf("not committed:\n%s", status)
	}
	for _, target := range []string{"build", "test-unit", "test-monitoring", "verify"} {
		command(t, dir, "make", target)
	}
	for _, module := range []string{"hack/cluster", "hack/cluster/faults", "hack/doctest", "hack/e2e", "hack/lab", "hack/lab/pagetest", "hack/release"} {
		command(t, filepath.Join(dir, module), "go", "vet", "./...")
	}
	command(t, filepath.Join(dir, "hack/release"), "go", "test", "-run", "TestChart", ".")
	command(t, dir, "go", "tool", "-modfile=hack/tools/go.mod", "actionlint")
	if version := command(t, dir, ".build/bin/pest-control", "-version"); !strings.HasPrefix(version, "pest-control ") {
		t.Errorf("-version printed %q", version)
	}
	checkTraces(t, dir)
	command(t, filepath.Join(dir, "hack/doctest"), "go", "test", "-run", "TestLinks|TestReferences", ".")

	if err := doctest.ApplyExercises(dir); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"generate", "test-unit"} {
		command(t, dir, "make", target)
	}
}

// checkTraces fails if an old name is left anywhere but in one line of the README. It ignores checksums, and "memory footprint"
// in generated code.
func checkTraces(t *testing.T, dir string) {
	t.Helper()
	trace := regexp.MustCompile(`(?i)foo|sample`)
	provenance := 0
	for name := range strings.FieldsSeq(command(t, dir, "git", "ls-files")) {
		if filepath.Ext(name) == ".sum" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(name + "\n" + strings.ReplaceAll(string(content), "memory footprint", "")) {
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
			wantOneLine(t, run(t.Context(), root, test.dir, test.module, test.group, test.kind, test.plural), test.want)
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
	if err := write(t.Context(), root, filepath.Join(parent, "new"), broken, n); err == nil {
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
