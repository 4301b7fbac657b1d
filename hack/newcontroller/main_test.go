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
)

const root = "../.."

// The kind has two words, its plural is not kind+s, the module is deep, and the group's first label is no Go name.
const (
	newModule = "example.com/platform/teams/pest-control"
	newGroup  = "farm-animals.example.org"
	newKind   = "FieldMouse"
	newPlural = "fieldmice"
)

func TestANewControllerPassesItsOwnTests(t *testing.T) {
	setIdentity(t)
	dir := filepath.Join(t.TempDir(), "pest-control")
	if err := run(t.Context(), root, dir, newModule, newGroup, newKind, newPlural); err != nil {
		t.Fatal(err)
	}
	if status := command(t, dir, "git", "status", "--short"); status != "" {
		t.Errorf("not committed:\n%s", status)
	}
	for _, target := range []string{"build", "test-unit", "verify"} {
		command(t, dir, "make", target)
	}
	for _, module := range []string{"hack/cluster", "hack/e2e", "hack/image"} {
		command(t, filepath.Join(dir, module), "go", "vet", "./...")
	}
	if version := command(t, dir, ".build/bin/pest-control", "-version"); !strings.HasPrefix(version, "pest-control ") {
		t.Errorf("-version says %q", version)
	}
	checkTraces(t, dir)
}

// checkTraces fails if a file tells of the original, other than in one line of the README. It judges with the eyes of grep,
// but leaves out checksums, and the word footprint, which client-go's generator uses.
func checkTraces(t *testing.T, dir string) {
	t.Helper()
	trace := regexp.MustCompile(`(?i)foo|sample`)
	provenance := 0
	for name := range strings.FieldsSeq(command(t, dir, "git", "ls-files")) {
		if filepath.Base(name) == "go.sum" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(name + "\n" + strings.ReplaceAll(string(content), "memory footprint", "")) {
			switch {
			case !trace.MatchString(line):
			case name == "README.md" && strings.HasPrefix(line, "Begun as a copy of"):
				provenance++
			default:
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	if provenance != 1 {
		t.Errorf("%d lines of the README name the original, want 1", provenance)
	}
}

func TestImpossibleInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
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
		"no folder":                           {"", newModule, newGroup, newKind, newPlural, "DIR="},
		"a folder that is not empty":          {parent + "/full", newModule, newGroup, newKind, newPlural, "not empty"},
		"a folder that is a file":             {parent + "/file", newModule, newGroup, newKind, newPlural, "no folder"},
		"a folder in one that is missing":     {parent + "/missing/new", newModule, newGroup, newKind, newPlural, "DIR="},
		"a folder in this repository":         {root + "/pkg/new", newModule, newGroup, newKind, newPlural, "inside this repository"},
		"a module that is imported":           {parent + "/new", "k8s.io/client-go", newGroup, newKind, newPlural, "imports"},
		"a module like a folder":              {parent + "/new", "example.com/artifacts", newGroup, newKind, newPlural, "folder artifacts"},
		"a variable that is a keyword":        {parent + "/new", newModule, newGroup, "Map", "", "a variable map"},
		"a variable that is predeclared":      {parent + "/new", newModule, newGroup, "Error", "", "a variable error"},
		"a variable that the code has":        {parent + "/new", newModule, newGroup, "Object", "", "called object"},
		"aliases that the code has":           {parent + "/new", newModule, "kube.example.com", newKind, newPlural, "called kube"},
		"a method that the factory has":       {parent + "/new", newModule, "start.example.com", newKind, newPlural, "called Start"},
		"a type that the package has":         {parent + "/new", newModule, newGroup, "GroupVersion", "", "called GroupVersion"},
		"a file that the generators make":     {parent + "/new", newModule, newGroup, "Doc", "", "both"},
		"a file for one platform":             {parent + "/new", newModule, newGroup, "Windows", "", "one platform"},
		"a file that would be taken for test": {parent + "/new", newModule, newGroup, "Test", "", "tests"},
	} {
		t.Run(name, func(t *testing.T) {
			wantOneLine(t, run(t.Context(), root, test.dir, test.module, test.group, test.kind, test.plural), test.want)
		})
	}
	if got := command(t, parent, "ls", "-A"); got != "file\nfull\n" {
		t.Errorf("something was written:\n%s", got)
	}
}

func TestAFailureLeavesNothingBehind(t *testing.T) {
	setIdentity(t)
	n := plan(t)
	parent := t.TempDir()
	broken := []file{{path: "hack/update-codegen.sh", mode: 0o755, content: []byte("#!/bin/sh\nexit 1\n")}}
	if err := write(t.Context(), root, filepath.Join(parent, "new"), broken, n); err == nil {
		t.Error("no error")
	}
	if got := command(t, parent, "ls", "-A"); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// setIdentity gives git a name for commits, which a fresh machine has not.
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
