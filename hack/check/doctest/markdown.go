// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctest checks the project's Markdown files: links, references to code, and command lines. It also checks that these, the Makefile
// and the scripts use nothing that macOS lacks.
package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
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

var markdown = goldmark.DefaultParser()

func readDocument(root, path string) (*document, error) {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return parse(path, string(content))
}

func parse(path, content string) (*document, error) {
	d := &document{path: path, prose: strings.Split(content, "\n"), anchors: map[string]bool{}}
	source, section := []byte(content), ""
	err := ast.Walk(markdown.Parse(text.NewReader(source)), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			section = d.addAnchor(textOf(node, source))
		case *ast.FencedCodeBlock:
			// The lines of the fences. A block without an end reaches to that of the document.
			first := strings.Count(content[:node.Pos()], "\n")
			last := first + node.Lines().Len() + 1
			if last >= len(d.prose) || !strings.Contains(d.prose[last], "```") && !strings.Contains(d.prose[last], "~~~") {
				return ast.WalkStop, fmt.Errorf("%s:%d: the code block has no end", path, first+1)
			}
			d.blocks = append(d.blocks, block{string(node.Language(source)), first + 2, section, string(node.Lines().Value(source))})
			clear(d.prose[first : last+1])
		}
		return ast.WalkContinue, nil
	})
	return d, err
}

// textOf returns the text in a node.
func textOf(node ast.Node, source []byte) (all string) {
	if leaf, ok := node.(*ast.Text); ok {
		return string(leaf.Value(source))
	}
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		all += textOf(child, source)
	}
	return all
}

// addAnchor adds the anchor that GitHub gives a heading.
func (d *document) addAnchor(title string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
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
