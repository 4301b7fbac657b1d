// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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
}

// values are the values of an action's fields.
type values map[string]string

func (v values) number(name string) int {
	number, _ := strconv.Atoi(v[name]) // It is valid.
	return number
}

// errInvalid is the error of an action that cannot be done with the given values.
var errInvalid = errors.New("invalid")

var objectNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// parse returns the values of all fields in a JSON object, or an error that wraps errInvalid.
func (a action) parse(body []byte) (values, error) {
	given := map[string]any{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &given); err != nil {
			return nil, fmt.Errorf("%w body: %w", errInvalid, err)
		}
	}
	v := values{}
	for _, f := range a.Fields {
		text := f.Default
		switch value := given[f.Name].(type) {
		case string:
			text = value
		case float64:
			text = strconv.FormatFloat(value, 'f', -1, 64)
		}
		if err := f.validate(text); err != nil {
			return nil, err
		}
		v[f.Name] = text
		delete(given, f.Name)
	}
	for name := range given {
		return nil, fmt.Errorf("%w field %q", errInvalid, name)
	}
	return v, nil
}

func (f field) validate(text string) error {
	switch {
	case len(f.Options) > 0:
		if !slices.Contains(f.Options, text) {
			return fmt.Errorf("%w %s: must be one of %s", errInvalid, f.Name, strings.Join(f.Options, ", "))
		}
	case f.Type == "number":
		if number, err := strconv.Atoi(text); err != nil || number < f.Min || number > f.Max {
			return fmt.Errorf("%w %s: must be a number from %d to %d", errInvalid, f.Name, f.Min, f.Max)
		}
	case !objectNames.MatchString(text):
		return fmt.Errorf("%w %s: must be a name of an object", errInvalid, f.Name)
	}
	return nil
}

// act does an act or a fault, and traces it, while the lock of those that act is held. It returns the command that does the same.
func (l *Lab) act(stop, name string, body []byte) (command string, err error) {
	actions := map[string][]action{"act": l.acts, "fault": l.faults}[stop]
	n := slices.IndexFunc(actions, func(a action) bool { return a.Name == name })
	if n < 0 {
		return "", fmt.Errorf("%w: there is no %s %q", errInvalid, stop, name)
	}
	a := actions[n]
	v, err := a.parse(body)
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
