// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// align aligns a renamed text, such as a table of kubectl or a list of commands with comments, in columns like the original. Columns are
// separated by at least two spaces, and reach to the next empty line.
func align(original, renamed string) string {
	paragraphs := strings.Split(renamed, "\n\n")
	for i, paragraph := range strings.Split(original, "\n\n") {
		paragraphs[i] = alignParagraph(strings.Split(paragraph, "\n"), strings.Split(paragraphs[i], "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

// cell is what a line has in a column other than the first.
type cell struct {
	line, gap int // gap is the number of spaces before it.
	text      string
}

func alignParagraph(original, renamed []string) string {
	cells := map[int][]cell{} // by column of the original
	aligned := make([]string, len(renamed))
	for i, line := range renamed {
		end := len(line)
		for j, gap := range slices.Backward(gaps(line)) {
			column := utf8.RuneCountInString(original[i][:gaps(original[i])[j][1]])
			cells[column] = append(cells[column], cell{i, gap[1] - gap[0], line[gap[1]:end]})
			end = gap[0]
		}
		aligned[i] = line[:end]
	}
	for _, column := range slices.Sorted(maps.Keys(cells)) {
		narrowest := slices.MinFunc(cells[column], func(a, b cell) int { return a.gap - b.gap }).gap
		width := 0
		for _, c := range cells[column] {
			width = max(width, utf8.RuneCountInString(aligned[c.line])+narrowest)
		}
		for _, c := range cells[column] {
			aligned[c.line] = fmt.Sprintf("%-*s%s", width, aligned[c.line], c.text)
		}
	}
	return strings.Join(aligned, "\n")
}

var spaces = regexp.MustCompile(` {2,}`)

// gaps returns where the gaps between columns begin and end. Indentation is none, unless it is that of a comment.
func gaps(line string) [][]int {
	return slices.DeleteFunc(spaces.FindAllStringIndex(line, -1), func(gap []int) bool { return gap[0] == 0 && !strings.HasPrefix(line[gap[1]:], "#") })
}
