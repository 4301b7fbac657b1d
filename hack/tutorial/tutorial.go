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
)

// stories is a directory to write the stories to that the documentation tells.
var stories = flag.String("stories", "", "`directory` to write the story of the lesson that a stage has not learned to")

// Test verifies that a stage has learned the lessons until its own, and that it has not learned the next one.
func Test(t *testing.T, stage int, program simulation.Program) {
	for n, lesson := range simulation.Lessons[:min(stage+1, len(simulation.Lessons))] {
		t.Run(lesson.Title, func(t *testing.T) {
			story, broken := lesson.Give(t, program)
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
