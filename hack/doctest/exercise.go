// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// new: leave out file: whoever has followed the exercises cannot apply them again.

package doctest

import (
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// exercises is the document with the exercises.
const exercises = "docs/extending.md"

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

// apply applies a diff in the unified format, but without line numbers: the lines that a hunk removes or leaves must occur exactly
// once in the file. White space within lines does not matter, because gofmt aligns them.
func (b block) apply(dir string) error {
	file := ""
	var hunk []string
	for line := range strings.SplitSeq(strings.TrimSuffix(b.text, "\n")+"\n@@", "\n") {
		name, isName := strings.CutPrefix(line, "+++ b/")
		switch {
		case isName:
			file = filepath.Join(dir, name)
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "--- a/"):
			if err := applyHunk(file, hunk); err != nil {
				return err
			}
			hunk = nil
		default:
			hunk = append(hunk, line+" ") // An empty line is one that is left.
		}
	}
	return nil
}

func applyHunk(file string, hunk []string) error {
	if len(hunk) == 0 {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	var before []string
	for _, line := range hunk {
		if line[0] != '+' {
			before = append(before, normalized(line[1:]))
		}
	}
	at := -1
	for i := range len(lines) - len(before) + 1 {
		if !slices.EqualFunc(lines[i:i+len(before)], before, func(line, want string) bool { return normalized(line) == want }) {
			continue
		}
		if at >= 0 {
			return fmt.Errorf("%s: the lines of a hunk occur more than once: %q", file, before)
		}
		at = i
	}
	if at < 0 || len(before) == 0 {
		return fmt.Errorf("%s: the lines of a hunk do not occur: %q", file, before)
	}
	changed := slices.Clone(lines[:at])
	for _, line := range hunk {
		switch line[0] {
		case '+':
			changed = append(changed, strings.TrimSuffix(line[1:], " "))
			continue
		case ' ':
			changed = append(changed, lines[at])
		case '-':
		default:
			return errors.New("a line of a diff must begin with +, - or a space: " + line)
		}
		at++
	}
	content = []byte(strings.Join(append(changed, lines[at:]...), "\n"))
	if filepath.Ext(file) == ".go" {
		if content, err = format.Source(content); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, content, 0o644)
}

func normalized(line string) string { return strings.Join(strings.Fields(line), " ") }
