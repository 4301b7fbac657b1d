// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// glossaryFile is the document whose sections are the terms of the page.
const glossaryFile = "docs/reference/client-go.md"

// term is a term of the glossary.
type term struct {
	Text string `json:"text"`
	// Code has the places in the code that the text refers to.
	Code []string `json:"code"`
}

var (
	section   = regexp.MustCompile(`(?m)^### (.+)\n\n((?:.+\n)+)`)
	link      = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	reference = regexp.MustCompile("`([^`]+\\.go)(?:: ([^`]+))?`")
	// aside matches references in parentheses, which stand beside the text on the page.
	aside = regexp.MustCompile("\\s*\\((?:`[^`]+\\.go(?:: [^`]+)?`(?:[,;] )?)+\\)")
)

// readGlossary returns the terms by name, each with the first paragraph of its section without Markdown, in the project in root.
func readGlossary(root string) (map[string]term, error) {
	content, err := os.ReadFile(filepath.Join(root, glossaryFile))
	if err != nil {
		return nil, err
	}
	terms := map[string]term{}
	for _, match := range section.FindAllStringSubmatch(string(content), -1) {
		terms[match[1]] = newTerm(match[2])
	}
	if len(terms) == 0 {
		return nil, fmt.Errorf("%s has no sections with terms", glossaryFile)
	}
	return terms, nil
}

// newTerm returns the term that a paragraph of Markdown explains.
func newTerm(paragraph string) term {
	text := strings.Join(strings.Fields(link.ReplaceAllString(paragraph, "$1")), " ")
	code := []string{}
	for _, match := range reference.FindAllString(text, -1) {
		code = append(code, strings.Trim(match, "`"))
	}
	text = reference.ReplaceAllStringFunc(aside.ReplaceAllString(text, ""), func(place string) string {
		match := reference.FindStringSubmatch(place)
		return cmp.Or(match[2], match[1])
	})
	return term{Text: strings.NewReplacer("*", "", "`", "").Replace(text), Code: code}
}
