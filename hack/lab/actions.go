// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

	do func(ctx context.Context, l *lab, v values) error
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

// act does an action, and traces it. It returns the command that does the same.
func (l *lab) act(ctx context.Context, stop string, a action, body []byte) (command string, err error) {
	v, err := a.parse(body)
	if err != nil {
		return "", err
	}
	if l.isPlaying() {
		return "", fmt.Errorf("%w: the scenario of a variant is being played", errInvalid)
	}
	l.acting.Lock()
	defer l.acting.Unlock()
	if !l.isLive() {
		return "", fmt.Errorf("%w: the cluster is not running yet", errInvalid)
	}
	return l.perform(ctx, stop, a, v)
}

// perform does an action with values, while the lock of those that act is held.
func (l *lab) perform(ctx context.Context, stop string, a action, v values) (command string, err error) {
	command = a.Command
	for name, value := range v {
		command = strings.ReplaceAll(command, "{"+name+"}", value)
	}
	if pid := l.pid(v["pod"]); pid > 0 {
		command = strings.ReplaceAll(command, "{pid}", strconv.Itoa(pid))
	}
	s := Step{Source: wire, Stop: stop, Kind: stop, Name: a.Name, What: a.Label, Raw: command}
	if lane := v["lane"]; lane != "" {
		s.Lane = lane
	}
	var details []string
	for _, f := range a.Fields {
		details = append(details, f.Name+" "+v[f.Name])
	}
	s.Why = strings.Join(details, ", ")
	l.record(s)
	if err := a.do(ctx, l, v); err != nil {
		s.Error, s.What = err.Error(), a.Label+" failed"
		l.record(s)
		return command, err
	}
	return command, nil
}

// isPlaying reports whether the scenario of a variant is being played.
func (l *lab) isPlaying() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.variant.isPlaying()
}

func (l *lab) isLive() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.phase == live
}

// pid returns the process ID of an instance, or of the leader if there is no name, and 0 if there is none.
func (l *lab) pid(name string) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, i := range l.instances {
		if i.process != nil && (i.name == name || name == "" && i.leader) {
			return i.process.Pid
		}
	}
	return 0
}

// find returns the action of a name.
func find(actions []action, name string) (action, bool) {
	i := slices.IndexFunc(actions, func(a action) bool { return a.Name == name })
	if i < 0 {
		return action{}, false
	}
	return actions[i], true
}
