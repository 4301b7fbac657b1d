// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial tests the stages of the tutorial, in which a controller grows.
package tutorial

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/simulation"
)

// stories is a directory to write the stories to that the documentation tells.
var stories = flag.String("stories", "", "`directory` to write the story of what the next stage mends to")

// Test verifies that a stage has learned the lessons until its own, and that it has not learned the next one.
func Test(t *testing.T, stage int, program simulation.Program) {
	for n, lesson := range simulation.Lessons[:min(stage+1, len(simulation.Lessons))] {
		t.Run(lesson.Title, func(t *testing.T) {
			story, broken := lesson.Give(t, program)
			switch {
			case n < stage && broken != "":
				t.Errorf("the story of the lesson:\n%s", story)
			case n == stage && broken == "":
				t.Errorf("stage %d has learned the lesson of stage %d already:\n%s", stage, stage+1, story)
			case n == stage:
				t.Logf("what the next stage mends:\n%s", story)
				compareStory(t, fmt.Sprintf("%d.txt", stage+1), story)
			}
		})
	}
}

var numbers = regexp.MustCompile(`[0-9.]+`)

// compareStory writes a story, or verifies that the documentation tells one that ends in the same way. What a learner writes is in no
// documentation.
func compareStory(t *testing.T, name, story string) {
	t.Helper()
	if *stories != "" {
		if err := os.WriteFile(filepath.Join(*stories, name), []byte(story+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	told, err := os.ReadFile(filepath.Join("../stories", name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	end := func(story string) string {
		lines := strings.Split(strings.TrimSpace(story), "\n")
		return numbers.ReplaceAllString(lines[len(lines)-1], "")
	}
	if end(string(told)) != end(story) {
		t.Errorf("the documentation tells another story (%v): run make tutorial-docs", err)
	}
}
