// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial tests the stages of the tutorial, in which a controller grows.
package tutorial

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/foos"
)

// stories is a directory to write the stories to that the documentation tells.
var stories = flag.String("stories", "", "`directory` to write the story of the lesson that a stage has not learned to")

// Test verifies that a stage has learned the lessons until its own, and that it has not learned the next one.
func Test(t *testing.T, stage int, program simulation.Program) {
	artifacts := filepath.Join(root(t), "artifacts", "examples")
	config := simulation.Config{
		Program: returning(program), Own: foos.Promises,
		CRDs: []string{filepath.Join(artifacts, "crd.yaml")}, Examples: []string{filepath.Join(artifacts, "example-foo.yaml")},
	}
	for n, lesson := range foos.Lessons[:min(stage, len(foos.Lessons))] {
		t.Run(lesson.Name, func(t *testing.T) {
			if story, broken := config.Try(t, lesson); broken != "" {
				t.Errorf("your code has not learned the lesson of stage %d:\n%s", n+1, story)
			}
		})
	}
	if stage == len(foos.Lessons) || t.Failed() {
		return
	}
	next := foos.Lessons[stage]
	t.Run("next: "+next.Name, func(t *testing.T) {
		story, broken := config.Try(t, next)
		switch {
		case broken != "":
			t.Logf("no failure, but what stage %d is about:\n%s", stage+1, story)
			if isDocumented() {
				compareStory(t, fmt.Sprintf("%d.txt", stage+1), story)
			}
		case isDocumented():
			t.Errorf("stage %d has learned the lesson of stage %d already:\n%s", stage, stage+1, story)
		default:
			t.Logf("your code has learned the lesson of stage %d already", stage+1)
		}
	})
}

// returnTimeout is how long run may take to return after its context is done, in virtual time.
const returnTimeout = time.Minute

// returning ends the test with an error if a program does not return after its context is done. Its queue would keep virtual time passing, and
// the walk would never end.
func returning(program simulation.Program) simulation.Program {
	return func(ctx context.Context, config *rest.Config) error {
		returned := make(chan error, 1)
		go func() { returned <- program(ctx, config) }()
		select {
		case err := <-returned:
			return err
		case <-ctx.Done():
		}
		select {
		case err := <-returned:
			return err
		case <-time.After(returnTimeout):
			fmt.Printf("FAIL: run did not return after ctx was done: shut down the queue, and end all else that run waits for\n")
			os.Exit(1)
			return nil
		}
	}
}

// root returns the root of the repository, in which a stage is, or a copy of one.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "artifacts", "examples")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above has artifacts/examples: run the test in a clone of the repository")
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
