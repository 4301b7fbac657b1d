// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/sample-controller/hack/learn/variants/diff"
)

// Exercises are the documents with exercises. Each starts with the project as it is.
var Exercises = []string{"docs/learn/extending.md", "docs/learn/replace-the-deployment.md"}

// ApplyExercises follows the exercises of a document in a repository: it applies the diffs and runs the commands that create or remove
// files. It leaves make generate to the caller, who needs it only once.
func ApplyExercises(dir, path string) error {
	d, err := readDocument(dir, path)
	if err != nil {
		return err
	}
	for _, b := range d.blocks {
		switch b.language {
		case "diff":
			err = b.apply(dir)
		case "shell":
			err = b.changeFiles(dir)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", d.path, b.line, err)
		}
	}
	return nil
}

// changeFiles runs the commands mkdir, cp and rm of a block.
func (b block) changeFiles(dir string) error {
	for line := range strings.Lines(b.text) {
		for _, words := range split(line) {
			if !slices.Contains([]string{"mkdir", "cp", "rm"}, words[0]) {
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
