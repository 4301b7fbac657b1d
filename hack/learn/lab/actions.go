// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// action is an act of a user, or a fault. Nothing else can be done through the page.
type action struct {
	Name    string  `json:"name"`
	Label   string  `json:"label"`
	Command string  `json:"command"` // that does the same; {field} is replaced by a field
	Fields  []field `json:"fields"`

	do func(l *Lab, v values) error
}

// field is an input of an action.
type field struct {
	Name    string   `json:"name"`
	Label   string   `json:"label,omitempty"` // if it differs from the name
	Default string   `json:"default"`
	Type    string   `json:"type,omitempty"` // number, or else the name of an object
	Min     int      `json:"min,omitempty"`
	Max     int      `json:"max,omitempty"`
	Options []string `json:"options,omitempty"`
	Shared  bool     `json:"shared,omitempty"` // with the other actions that have it
}

// values are the values of an action's fields. The page has validated them.
type values map[string]string

func (v values) number(name string) int {
	number, _ := strconv.Atoi(v[name])
	return number
}

// values returns the values of all fields: those in a JSON object, and the defaults of the others.
func (a action) values(body []byte) (values, error) {
	given, v := map[string]any{}, values{}
	if err := json.Unmarshal(body, &given); err != nil {
		return nil, err
	}
	for _, f := range a.Fields {
		v[f.Name] = fmt.Sprint(cmp.Or(given[f.Name], any(f.Default)))
	}
	return v, nil
}

// act does an act or a fault, and traces it, while the lock of those that act is held. It returns the command that does the same.
func (l *Lab) act(stop, name string, body []byte) (command string, err error) {
	actions := map[string][]action{"act": l.acts, "fault": l.faults}[stop]
	n := slices.IndexFunc(actions, func(a action) bool { return a.Name == name })
	if n < 0 {
		return "", fmt.Errorf("there is no %s %q", stop, name)
	}
	a := actions[n]
	v, err := a.values(body)
	if err != nil {
		return "", err
	}
	command = a.Command
	for name, value := range v {
		command = strings.ReplaceAll(command, "{"+name+"}", value)
	}
	s := Step{Source: wire, Stop: stop, Kind: stop, Name: a.Name, What: a.Label, Raw: command, Lane: v["lane"]}
	var details []string
	for _, f := range a.Fields {
		details = append(details, f.Name+" "+v[f.Name])
	}
	s.Why = strings.Join(details, ", ")
	l.record(s)
	if err := a.do(l, v); err != nil {
		s.Error, s.What = err.Error(), a.Label+" failed"
		l.record(s)
		return command, err
	}
	return command, nil
}
