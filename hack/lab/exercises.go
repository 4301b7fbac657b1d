// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// exercise is an exercise as the page shows it. Its check is in the table of checks.
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

func readExercises() ([]exercise, error) {
	content, err := fs.ReadFile(pageFiles(), exercisesFile)
	if err != nil {
		return nil, err
	}
	var all []exercise
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", exercisesFile, err)
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

// exercises checks the exercises that are active.
type exercises struct {
	lock   sync.Mutex
	states []exerciseState
}

type exerciseState struct {
	ID     string `json:"id"`
	Active bool   `json:"active"`
	Passed bool   `json:"passed"`
	Seq    int64  `json:"seq,omitempty"` // of the step at which it passed

	seen []Step // since it is active
}

func newExercises() (*exercises, error) {
	all, err := readExercises()
	if err != nil {
		return nil, err
	}
	e := &exercises{}
	for _, exercise := range all {
		e.states = append(e.states, exerciseState{ID: exercise.ID})
	}
	return e, nil
}

func (e *exercises) state() []exerciseState {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.Clone(e.states)
}

// set begins an exercise anew, or ends it, and reports whether there is one of that ID.
func (e *exercises) set(id string, active bool) bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	i := slices.IndexFunc(e.states, func(s exerciseState) bool { return s.ID == id })
	if i < 0 {
		return false
	}
	e.states[i] = exerciseState{ID: id, Active: active}
	return true
}

// check checks the active exercises, after further steps, and returns a step for each that passes now.
func (e *exercises) check(steps []Step) (passed []Step) {
	e.lock.Lock()
	defer e.lock.Unlock()
	for i := range e.states {
		s := &e.states[i]
		if !s.Active || s.Passed || len(steps) == 0 {
			continue
		}
		s.seen = append(s.seen, steps...)
		s.seen = s.seen[max(0, len(s.seen)-keptSteps):]
		why, ok := checks[s.ID](s.seen)
		if !ok {
			continue
		}
		s.Passed, s.Active, s.Seq, s.seen = true, false, steps[len(steps)-1].Seq, nil
		passed = append(passed, Step{Source: inferred, Stop: "exercise", Kind: "exercise", Name: s.ID, What: why})
	}
	return passed
}
