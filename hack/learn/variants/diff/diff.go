// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package diff applies diffs in the unified format, but without line numbers, so that they survive changes elsewhere in a file.
package diff

import (
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// linked matches a line of Markdown that is a link to a diff.
var linked = regexp.MustCompile(`(?m)^( *)\[[^\]]*\]\(([\w/-]+\.diff)\)$`)

// Include returns Markdown in which each line that is a link to a diff in dir is replaced by this diff, as a code block.
func Include(dir, markdown string) (included string, err error) {
	included = linked.ReplaceAllStringFunc(markdown, func(line string) string {
		link := linked.FindStringSubmatch(line)
		content, readErr := os.ReadFile(filepath.Join(dir, link[2]))
		err = errors.Join(err, readErr)
		block := "```diff\n" + string(content) + "```"
		return link[1] + strings.ReplaceAll(block, "\n", "\n"+link[1])
	})
	return included, err
}

// Apply applies a diff to the files of a directory. After an error no file has changed.
func Apply(dir, diff string) error {
	changed, err := Changed(dir, diff)
	if err != nil {
		return err
	}
	for path, content := range changed {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Changed returns the files that a diff changes, by their paths in dir, with their new contents, and leaves them as they are. The lines that a
// hunk removes or leaves must occur exactly once in the file. White space within lines does not matter, because gofmt aligns them. A file
// after --- /dev/null is new, and has one hunk.
func Changed(dir, diff string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	path, isNew := "", false
	var hunk []string
	for line := range strings.SplitSeq(strings.TrimSuffix(diff, "\n")+"\n@@", "\n") {
		name, isName := strings.CutPrefix(line, "+++ b/")
		switch {
		case isName:
			path = name
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "--- a/"), line == "--- /dev/null":
			apply := applyHunk
			if isNew {
				apply = create
			}
			if err := apply(changed, dir, path, hunk); err != nil {
				return nil, err
			}
			hunk = nil
			isNew = line == "--- /dev/null" || isNew && strings.HasPrefix(line, "@@")
		default:
			hunk = append(hunk, line+" ") // An empty line is one that is left.
		}
	}
	return changed, nil
}

// create adds a file that does not exist, with the lines of a hunk.
func create(changed map[string][]byte, dir, path string, hunk []string) error {
	if len(hunk) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, path)); !os.IsNotExist(err) || changed[path] != nil {
		return fmt.Errorf("%s: a new file must not exist", path)
	}
	for _, line := range hunk {
		if line[0] != '+' {
			return fmt.Errorf("%s: a line of a new file must begin with +: %s", path, line)
		}
		changed[path] = append(changed[path], strings.TrimSuffix(line[1:], " ")+"\n"...)
	}
	return nil
}

// applyHunk applies a hunk to a file, which is read from dir unless an earlier hunk has changed it.
func applyHunk(changed map[string][]byte, dir, path string, hunk []string) (err error) {
	if len(hunk) == 0 {
		return nil
	}
	content, ok := changed[path]
	if !ok {
		if content, err = os.ReadFile(filepath.Join(dir, path)); err != nil {
			return err
		}
	}
	lines := strings.Split(string(content), "\n")
	at, err := find(lines, hunk)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	after := slices.Clone(lines[:at])
	for _, line := range hunk {
		switch line[0] {
		case '+':
			after = append(after, strings.TrimSuffix(line[1:], " "))
			continue
		case ' ':
			after = append(after, lines[at])
		}
		at++
	}
	content = []byte(strings.Join(append(after, lines[at:]...), "\n"))
	if filepath.Ext(path) == ".go" {
		if content, err = format.Source(content); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	changed[path] = content
	return nil
}

// find returns the index of the lines that a hunk removes or leaves.
func find(lines, hunk []string) (int, error) {
	var before []string
	for _, line := range hunk {
		if !strings.Contains("+- ", line[:1]) {
			return 0, errors.New("a line of a diff must begin with +, - or a space: " + line)
		}
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
			return 0, fmt.Errorf("the lines of a hunk occur more than once: %q", before)
		}
		at = i
	}
	if at < 0 || len(before) == 0 {
		return 0, fmt.Errorf("the lines of a hunk do not occur: %q", before)
	}
	return at, nil
}

func normalized(line string) string { return strings.Join(strings.Fields(line), " ") }
