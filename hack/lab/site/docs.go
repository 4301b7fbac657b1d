// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/sample-controller/hack/variants"
)

// exercise is an exercise as the page shows it. The lab has its check.
type exercise struct {
	ID               string   `json:"id"`
	Title            string   `json:"title"`
	Task             string   `json:"task"`
	Question         string   `json:"question"`
	Choices          []string `json:"choices,omitempty"`
	Answer           int      `json:"answer,omitempty"` // index of the right choice
	Number           *int     `json:"number,omitempty"` // to enter, without choices
	Explanation      string   `json:"explanation"`
	Misunderstanding string   `json:"misunderstanding,omitempty"` // anchor in docs/controller-client-go.md
	Variant          string   `json:"variant,omitempty"`          // ID of the variant that shows what happens otherwise
}

// readExercises returns the exercises of the project in root.
func readExercises(root string) ([]exercise, error) {
	content, err := os.ReadFile(filepath.Join(root, "hack/lab/page/exercises.json"))
	if err != nil {
		return nil, err
	}
	var all []exercise
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("exercises.json: %w", err)
	}
	return all, nil
}

// exercisesMarkdown returns the exercises as a document, with the answers folded.
func exercisesMarkdown(all []exercise, variantAnchors map[string]string) string {
	var text strings.Builder
	text.WriteString(`# Exercises

` + "`make lab`" + ` shows the controller at work, and lets you break it; the page has these exercises, and checks from what it sees whether you have
done them. Answer each question before you open the answer.

<!-- Generated from hack/lab/page/exercises.json by make lab-docs. -->
`)
	for i, e := range all {
		fmt.Fprintf(&text, "\n## %d. %s\n\n%s\n\n**%s**\n\n", i+1, e.Title, e.Task, e.Question)
		answer := ""
		for n, choice := range e.Choices {
			letter := string(rune('a' + n))
			fmt.Fprintf(&text, "- %s) %s\n", letter, choice)
			if n == e.Answer {
				answer = letter + ")"
			}
		}
		if e.Number != nil {
			answer = strconv.Itoa(*e.Number) + "."
		} else {
			text.WriteString("\n")
		}
		explanation := e.Explanation
		if e.Misunderstanding != "" {
			explanation += " ([more](controller-client-go.md" + e.Misunderstanding + "))"
		}
		if e.Variant != "" {
			explanation += " ([the controller without it](why.md#" + variantAnchors[e.Variant] + "))"
		}
		fmt.Fprintf(&text, "<details><summary>Answer</summary>\n\n%s %s\n\n</details>\n", answer, explanation)
	}
	return text.String()
}

// writeDocs writes what is generated of the documentation to dir: the exercises, and what each line is for.
func writeDocs(root, dir string) error {
	catalogue, err := variants.All()
	if err != nil {
		return err
	}
	exercises, err := readExercises(root)
	if err != nil {
		return err
	}
	why, err := variants.Markdown(root)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"exercises.md": exercisesMarkdown(exercises, variants.Anchors(catalogue)), "why.md": why} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
