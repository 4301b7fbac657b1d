// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"time"
)

// Step is one step of a key, an object, a request or a process. The README describes the fields and the kinds.
type Step struct {
	Seq             int64          `json:"seq"`
	Time            time.Time      `json:"time"`
	Source          string         `json:"source"`
	Stop            string         `json:"stop"`
	Lane            string         `json:"lane,omitempty"`
	Kind            string         `json:"kind"`
	Pod             string         `json:"pod,omitempty"`
	Key             string         `json:"key,omitempty"`
	Object          string         `json:"object,omitempty"`
	ResourceVersion string         `json:"resourceVersion,omitempty"`
	What            string         `json:"what,omitempty"`
	Why             string         `json:"why,omitempty"`
	Code            string         `json:"code,omitempty"`
	Raw             string         `json:"raw,omitempty"`
	EventType       string         `json:"eventType,omitempty"`
	Verb            string         `json:"verb,omitempty"`
	Resource        string         `json:"resource,omitempty"`
	Status          int            `json:"status,omitempty"`
	Request         int64          `json:"request,omitempty"`
	Echo            int64          `json:"echo,omitempty"`
	Priority        string         `json:"priority,omitempty"`
	Merged          string         `json:"merged,omitempty"`
	Delay           float64        `json:"delay,omitempty"`
	Retries         int            `json:"retries,omitempty"`
	Worker          int            `json:"worker,omitempty"`
	Duration        float64        `json:"duration,omitempty"`
	Result          string         `json:"result,omitempty"`
	Count           int            `json:"count,omitempty"`
	Counts          map[string]int `json:"counts,omitempty"`
	Name            string         `json:"name,omitempty"`
	Error           string         `json:"error,omitempty"`
}

// The sources of steps.
const (
	wire     = "wire"
	logged   = "log"
	inferred = "inferred"
)

// The lanes: one for each informer.
const (
	foos        = "foos"
	deployments = "deployments"
)

// String returns the step as a line of text.
func (s Step) String() string {
	var line strings.Builder
	line.WriteString(s.Time.Local().Format("15:04:05.000"))
	column := func(text string, width int) {
		line.WriteString("  " + text + strings.Repeat(" ", max(0, width-len(text))))
	}
	column(s.Pod, 1)
	column(map[string]string{wire: "", logged: "", inferred: "~"}[s.Source]+s.Stop, 11)
	column(s.Lane, len(deployments))
	var words []string
	for _, word := range []string{s.Object, s.ResourceVersion, s.What, s.Why, s.Error} {
		if word != "" {
			words = append(words, word)
		}
	}
	if s.Key != "" && s.Key != s.Object {
		words = append([]string{s.Key}, words...)
	}
	column(strings.Join(words, " | "), 0)
	return strings.TrimRight(line.String(), " ")
}
