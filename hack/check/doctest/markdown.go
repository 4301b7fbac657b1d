// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctest checks the project's Markdown files: links, references to code, and command lines. It also checks that these, the Makefile
// and the scripts use nothing that macOS lacks.
package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// document is a Markdown file.
type document struct {
	path string // relative to the root of the repository
	// prose has the lines outside of code blocks. The others are empty, so that the index of a line is its number minus one.
	prose   []string
	anchors map[string]bool
	blocks  []block
}

// block is a fenced code block.
type block struct {
	language string
	line     int    // of the first line of text
	section  string // anchor of the heading above
	text     string
}

var (
	fence   = regexp.MustCompile("^\\s*```(\\w*)")
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
	// linked matches an inline link, whose text is all that its anchor has of it.
	linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func readDocument(root, path string) (*document, error) {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return parse(path, string(content))
}

func parse(path, content string) (*document, error) {
	d := &document{path: path, anchors: map[string]bool{}}
	var current *block
	section, indent := "", ""
	for i, line := range strings.Split(content, "\n") {
		prose := ""
		match := fence.FindStringSubmatch(line)
		switch {
		case match != nil && current == nil:
			current = &block{language: match[1], line: i + 2, section: section}
			indent = line[:strings.Index(line, "`")]
		case match != nil:
			d.blocks = append(d.blocks, *current)
			current = nil
		case current != nil:
			current.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			prose = line
			if title := heading.FindStringSubmatch(line); title != nil {
				section = d.addAnchor(title[1])
			}
		}
		d.prose = append(d.prose, prose)
	}
	if current != nil {
		return nil, fmt.Errorf("%s:%d: the code block has no end", path, current.line-1)
	}
	return d, nil
}

// addAnchor adds the anchor that GitHub gives a heading.
func (d *document) addAnchor(title string) string {
	title = strings.ToLower(strings.TrimSpace(linked.ReplaceAllString(title, "$1")))
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		}
		return -1
	}, title)
	anchor := name
	for i := 1; d.anchors[anchor]; i++ {
		anchor = fmt.Sprintf("%s-%d", name, i)
	}
	d.anchors[anchor] = true
	return anchor
}
