// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial tests the stages of the tutorial, in which a controller grows.
package tutorial

import (
	"testing"

	"k8s.io/sample-controller/hack/simulation"
)

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
			}
		})
	}
}
