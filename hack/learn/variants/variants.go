// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package variants has variants of the controller, each without one thing that the controller does, with what happens then, and the test
// that fails.
package variants

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"k8s.io/sample-controller/hack/learn/variants/diff"
)

// Variant is a variant of the controller.
type Variant struct {
	// ID names the files of the variant in the directory catalogue.
	ID string `json:"id"`
	// Title is what the controller does, and the variant does not.
	Title string `json:"title"`
	// Question is why it is done.
	Question string `json:"question"`
	// Seen is what happens without it.
	Seen string `json:"seen"`
	// Promise is the promise to the users that the variant breaks.
	Promise string `json:"promise"`
	// Broken is the promise that the simulation finds broken, as it names it.
	Broken   string   `json:"broken"`
	Test     Test     `json:"test"`
	Scenario Scenario `json:"scenario"`
	// Diff is the difference between the controller and the variant, without line numbers, as package diff applies it.
	Diff string `json:"diff"`
}

// Test is the test that fails for a variant.
type Test struct {
	// Package is the directory of the test, relative to the root of the repository.
	Package string `json:"package"`
	// Name is the name of the test, such as TestSyncHandler/steady_state.
	Name string `json:"name"`
	// Says is a part of what it prints when it fails for the variant.
	Says string `json:"says"`
}

// Scenario is what shows the difference between the controller and a variant in the lab.
type Scenario struct {
	// Flags are further flags of the controller.
	Flags []string `json:"flags,omitempty"`
	// Steps follow each other.
	Steps []Step `json:"steps"`
	// Wrong is where the variant goes wrong.
	Wrong Wrong `json:"wrong"`
}

// Step is an act, a fault or a wait.
type Step struct {
	// Act and Fault are the name of one in the lab.
	Act   string `json:"act,omitempty"`
	Fault string `json:"fault,omitempty"`
	// Fields are the values of the act's or fault's fields. Those that are not given have the lab's defaults.
	Fields map[string]any `json:"fields,omitempty"`
	// Until describes a step of the lab's stream that is waited for, as Wrong.Step does. It may have happened since the previous act or fault.
	Until map[string]any `json:"until,omitempty"`
	// Wait is how many seconds are waited, with Until at most.
	Wait float64 `json:"wait,omitempty"`
}

// Wrong describes a step of the lab's stream.
type Wrong struct {
	// Step has the values of fields of the step, by their names in the stream.
	Step map[string]any `json:"step"`
	// Nth says which of these steps it is, the first one if it is 0.
	Nth int `json:"nth,omitempty"`
	// Missing says that the controller makes the step, and the variant does not. Otherwise the variant makes it, and the controller does not,
	// or later.
	Missing bool `json:"missing,omitempty"`
}

//go:embed catalogue
var catalogue embed.FS

// All returns all variants.
func All() ([]Variant, error) {
	content, err := catalogue.ReadFile("catalogue/catalogue.json")
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var all []Variant
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("catalogue.json: %w", err)
	}
	for i := range all {
		content, err := catalogue.ReadFile(path.Join("catalogue", all[i].ID+".diff"))
		if err != nil {
			return nil, err
		}
		all[i].Diff = string(content)
	}
	return all, nil
}

// BuildSimulation compiles the tests of the main package in root, with an overlay, to a program. It runs in root.
func BuildSimulation(ctx context.Context, root, overlay, program string) error {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", program, ".")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, output)
	}
	return nil
}

// Files returns the files that the variant changes, by their paths in the repository at root, with their new contents.
func (v Variant) Files(root string) (map[string][]byte, error) {
	files, err := diff.Changed(root, v.Diff)
	if err != nil {
		return nil, fmt.Errorf("%s.diff: %w", v.ID, err)
	}
	return files, nil
}

// Overlay writes files that replace those of the project in root to dir, and returns the path of an overlay for go build, go vet and go test.
// With an overlay, the packages that do not change are found in Go's cache.
func Overlay(root, dir string, files map[string][]byte) (string, error) {
	replace := map[string]string{}
	for name, content := range files {
		original, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		replacement, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(replacement), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(replacement, content, 0o644); err != nil {
			return "", err
		}
		replace[original] = replacement
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return "", err
	}
	return filepath.Abs(file)
}
