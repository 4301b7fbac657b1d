// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/sample-controller/hack/learn/variants"
	"k8s.io/sample-controller/hack/learn/variants/diff"
)

// exercise is a copy of the project in which something is missing.
type exercise struct {
	// task is what happens, or what is desired.
	task string
	// prepare makes the exercise of a copy of the project.
	prepare func(dir string) error
	// hint precedes the places of the solution.
	hint string
	// solution is a diff, as package diff applies it.
	solution string
	// checks succeed with the solution.
	checks []check
	// explanation is told when the exercise is solved.
	explanation string
}

// check is a command that is to succeed.
type check struct {
	name    string
	command []string
}

var (
	generatedFiles = check{"the check of generated files", []string{"hack/verify-codegen.sh"}}
	unitTests      = check{"unit tests", []string{
		"go", "test", "-count=1", "-timeout=5m", "-skip=^TestSimulation$", ".", "./pkg/...", "./hack/simulation/foos",
	}}
	walks = check{"walks", []string{"go", "test", "-count=1", "-failfast", "-run=^TestSimulation$", ".", "-walks=25", "-shrink=20s"}}
)

// exercises returns all of them: the variants of the controller, and then the features.
func exercises(root string) ([]exercise, error) {
	catalogue, err := variants.All()
	if err != nil {
		return nil, err
	}
	var all []exercise
	for _, v := range catalogue {
		all = append(all, exercise{
			task: "In this controller, something is missing. A question to begin with: " + v.Question +
				"\n\nPredict what users see, then read the story of a random walk, and which unit tests fail.",
			prepare:     func(dir string) error { return diff.Apply(dir, v.Diff) },
			hint:        fmt.Sprintf("What users see:\n%s\n\n", v.Seen),
			solution:    reversed(v.Diff),
			checks:      []check{walks, unitTests},
			explanation: fmt.Sprintf("%s.\n\nWhat users saw: %s\n\nThe promise to them: %s", v.Title, v.Seen, v.Promise),
		})
	}
	features, err := features(root)
	if err != nil {
		return nil, err
	}
	for i, f := range features {
		all = append(all, f.exercise(features[:i]))
	}
	return all, nil
}

// reversed returns the diff that undoes another one.
func reversed(diff string) string {
	var text, added strings.Builder
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case line[0] == '+':
			added.WriteString("-" + line[1:])
			continue
		case line[0] == '-':
			text.WriteString("+" + line[1:])
			continue
		}
		text.WriteString(added.String())
		added.Reset()
		text.WriteString(line)
	}
	return text.String() + added.String()
}

var (
	fenced = regexp.MustCompile("(?ms)^( *)```(diff|shell)\n(.*?)^ *```$")
	file   = regexp.MustCompile(`(?m)^--- a/`)
)

// feature is a page about one.
type feature struct {
	path, title, about string
	steps              []string // diffs, and commands
}

// features returns those of variants.Features.
func features(root string) ([]feature, error) {
	var all []feature
	for _, path := range variants.Features {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		text, err := diff.Include(filepath.Join(root, filepath.Dir(path)), string(content))
		if err != nil {
			return nil, err
		}
		title, text, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		about, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n1. ")
		f := feature{path: path, title: title, about: about}
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			f.steps = append(f.steps, strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n")[1:])
		}
		all = append(all, f)
	}
	return all, nil
}

// exercise returns the exercise that has the features before it, and its tests.
func (f feature) exercise(before []feature) exercise {
	solution, tests := f.split()
	return exercise{
		task: fmt.Sprintf("%s. The tests are there, and the code is not:\n\n%s", f.title, f.about),
		prepare: func(dir string) error {
			for _, b := range before {
				if err := b.apply(dir, b.steps); err != nil {
					return err
				}
			}
			if len(before) > 0 {
				if err := inDir(dir, "hack/update-codegen.sh"); err != nil {
					return err
				}
			}
			return f.apply(dir, tests)
		},
		solution:    strings.Join(solution, "\n"),
		checks:      []check{generatedFiles, unitTests, walks},
		explanation: "Compare it with " + f.path + ", which also tries it with kubectl.",
	}
}

// split returns the steps that solve the exercise, and those that change tests and what walks expect.
func (f feature) split() (solution, tests []string) {
	for _, step := range f.steps {
		if !file.MatchString(step) {
			solution = append(solution, step)
			continue
		}
		for _, part := range file.Split(step, -1)[1:] {
			name, _, _ := strings.Cut(part, "\n")
			if part = "--- a/" + part; strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "hack/simulation/") {
				tests = append(tests, part)
			} else {
				solution = append(solution, part)
			}
		}
	}
	return solution, tests
}

// apply applies diffs, and runs the commands that create files. It leaves make generate to the caller, who needs it only once.
func (f feature) apply(dir string, steps []string) error {
	for _, step := range steps {
		if file.MatchString(step) {
			if err := diff.Apply(dir, step); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			continue
		}
		for line := range strings.Lines(step) {
			if words := strings.Fields(line); len(words) > 0 && (words[0] == "mkdir" || words[0] == "cp") {
				if err := inDir(dir, words[0], words[1:]...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// places returns the files and functions that a diff changes.
func places(diff string) string {
	var text strings.Builder
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ b/"):
			text.WriteString("  " + line[len("+++ b/"):])
		case strings.HasPrefix(line, "@@ ") && strings.Trim(line, "@ \n") != "import":
			text.WriteString("    " + strings.Trim(line, "@ \n") + "\n")
		}
	}
	return text.String()
}
