// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial tests the stages of the tutorial, in which a controller grows.
package tutorial

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/foos"
)

// stories is a directory to write the stories to that the documentation tells.
var stories = flag.String("stories", "", "`directory` to write the story of the lesson that a stage has not learned to")

// Test verifies that a stage has learned the lessons until its own, and that it has not learned the next one.
func Test(t *testing.T, stage int, program simulation.Program) {
	artifacts := filepath.Join(root(t), "artifacts", "examples")
	config := simulation.Config{
		Program: program, Own: foos.Promises,
		CRDs: []string{filepath.Join(artifacts, "crd.yaml")}, Examples: []string{filepath.Join(artifacts, "example-foo.yaml")},
	}
	for n, lesson := range foos.Lessons[:min(stage+1, len(foos.Lessons))] {
		t.Run(lesson.Name, func(t *testing.T) {
			story, broken := config.Try(t, lesson)
			switch {
			case n < stage && broken != "":
				t.Errorf("the story of the lesson:\n%s", story)
			case n < stage:
			case broken == "" && isDocumented():
				t.Errorf("stage %d has learned the lesson of stage %d already:\n%s", stage, stage+1, story)
			case broken == "":
				t.Logf("your code has learned the lesson of stage %d already", stage+1)
			default:
				t.Logf("the lesson of stage %d, which stage %d has not learned yet:\n%s", stage+1, stage, story)
				if isDocumented() {
					compareStory(t, fmt.Sprintf("%d.txt", stage+1), story)
				}
			}
		})
	}
}

// root returns the directory of the module, in which a stage is, or a copy of one.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above has a go.mod: run the test in a clone of the repository")
		}
	}
}

// isDocumented reports whether the documentation tells the stories of this program. It tells none of a copy or of what a learner writes.
func isDocumented() bool {
	_, err := os.Stat("../stories")
	return err == nil
}

var numbers = regexp.MustCompile(`[0-9.]+`)

// compareStory writes a story, or verifies that the documentation tells one that ends in the same way.
func compareStory(t *testing.T, name, story string) {
	t.Helper()
	if *stories != "" {
		if err := os.WriteFile(filepath.Join(*stories, name), []byte(story+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	told, err := os.ReadFile(filepath.Join("../stories", name))
	if err != nil {
		t.Fatal(err)
	}
	end := func(story string) string {
		lines := strings.Split(strings.TrimSpace(story), "\n")
		return numbers.ReplaceAllString(lines[len(lines)-1], "")
	}
	if end(string(told)) != end(story) {
		t.Errorf("the documentation tells another story: run make tutorial-docs")
	}
}
