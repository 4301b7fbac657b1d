// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// new: leave out file: whoever has followed the exercises cannot apply them again.

package doctest

import (
	"fmt"
	"os/exec"
	"strings"

	"k8s.io/sample-controller/hack/variants/diff"
)

// exercises is the document with the exercises.
const exercises = "docs/learn/extending.md"

// ApplyExercises follows the exercises in a repository: it applies the diffs and runs the commands that create files. It leaves
// make generate to the caller, who needs it only once.
func ApplyExercises(dir string) error {
	d, err := readDocument(dir, exercises)
	if err != nil {
		return err
	}
	for _, b := range d.blocks {
		switch b.language {
		case "diff":
			err = b.apply(dir)
		case "shell":
			err = b.createFiles(dir)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", d.path, b.line, err)
		}
	}
	return nil
}

// createFiles runs the commands mkdir and cp of a block.
func (b block) createFiles(dir string) error {
	for line := range strings.Lines(b.text) {
		for _, words := range split(line) {
			if words[0] != "mkdir" && words[0] != "cp" {
				continue
			}
			command := exec.Command(words[0], words[1:]...)
			command.Dir = dir
			if output, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w\n%s", words, err, output)
			}
		}
	}
	return nil
}

// apply applies a diff.
func (b block) apply(dir string) error { return diff.Apply(dir, b.text) }
