// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/learn/variants/diff"
)

const root = "../../.."

func catalogued(t *testing.T) []Variant {
	t.Helper()
	variants, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return variants
}

// TestVariants verifies that the test of each variant fails for the variant, and passes for the controller, and that the simulation, without
// any other test, notices that the variant breaks the promise.
func TestVariants(t *testing.T) {
	variants := catalogued(t)
	tests := map[string][]string{} // by package
	for _, v := range variants {
		name, _, _ := strings.Cut(v.Test.Name, "/")
		tests[v.Test.Package] = append(tests[v.Test.Package], name)
	}
	passed := map[string]bool{}
	for pkg, names := range tests {
		results, _ := runTests(t, pkg, "^("+strings.Join(names, "|")+")$", nil)
		for name, result := range results {
			passed[pkg+" "+name] = result == "pass"
		}
	}
	for _, v := range variants {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			files, err := v.Files(root)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := Overlay(root, t.TempDir(), files)
			if err != nil {
				t.Fatal(err)
			}
			if !passed[v.Test.Package+" "+v.Test.Name] {
				t.Errorf("%s does not pass for the controller", v.Test.Name)
			}
			pattern := "^" + strings.ReplaceAll(v.Test.Name, "/", "$/^") + "$"
			results, output := runTests(t, v.Test.Package, pattern, []string{"-overlay=" + overlay})
			if result := results[v.Test.Name]; result != "fail" || !strings.Contains(output, v.Test.Says) {
				t.Errorf("the result of %s for the variant is %q, want fail with %q:\n%s", v.Test.Name, result, v.Test.Says, output)
			}
			if output := walkUntil(t, v.Broken, overlay); output != "" {
				t.Errorf("the simulation does not notice that %q is broken:\n%s", v.Broken, output)
			}
		})
	}
}

// story matches the line that begins a story of the simulation, with the name of the broken promise.
var story = regexp.MustCompile(`(?:simulation|trial)\.go:\d+: ([^:\n]+): `)

// walkUntil walks until a promise is broken, and returns the output if it never is.
func walkUntil(t *testing.T, broken, overlay string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	program := filepath.Join(t.TempDir(), "simulation.test")
	if err := BuildSimulation(ctx, root, overlay, program); err != nil {
		t.Fatal(err)
	}
	walks := exec.CommandContext(ctx, program, "-test.v", "-test.run=^TestSimulation$", "-test.timeout=10m", "-walks=25", "-shrink=0")
	walks.Dir = root
	stdout, err := walks.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	walks.Stderr = walks.Stdout
	if err := walks.Start(); err != nil {
		t.Fatal(err)
	}
	defer walks.Wait()
	var output strings.Builder
	for lines := bufio.NewReader(stdout); ; {
		line, err := lines.ReadString('\n')
		output.WriteString(line)
		if found := story.FindStringSubmatch(line); found != nil && found[1] == broken {
			cancel() // The other walks would say nothing new.
			return ""
		}
		if err != nil {
			return output.String()
		}
	}
}

// permits are the hunks that only permit what another hunk of the variant does. By themselves they change nothing.
var permits = regexp.MustCompile(`(?m)^@@ (type Client|sample-controller-foos) @@$`)

// TestHalfSolutions verifies that what is left of a variant, when all but one of its hunks, or of its files, are repaired, is still noticed.
func TestHalfSolutions(t *testing.T) {
	for _, v := range catalogued(t) {
		for _, half := range halves(v.Diff) {
			hunks := strings.Count(half, "\n@@ ")
			if len(permits.FindAllString(half, -1)) == hunks {
				continue
			}
			_, place, _ := strings.Cut(half, "\n+++ b/")
			t.Run(v.ID+" "+strings.ReplaceAll(strings.Join(strings.SplitN(place, "\n", 3)[:2], " "), "/", "-"), func(t *testing.T) {
				t.Parallel()
				files, err := diff.Changed(root, half)
				if err != nil {
					t.Fatal(err)
				}
				overlay, err := Overlay(root, t.TempDir(), files)
				if err != nil {
					t.Fatal(err)
				}
				if err := BuildSimulation(t.Context(), root, overlay, os.DevNull); err != nil {
					if hunks > 1 {
						t.Error(err) // Of one hunk of several, the compiler may say that it needs the others.
					}
					return
				}
				for _, args := range [][]string{
					{"-failfast", "-skip=^TestSimulation$", ".", "./pkg/..."},
					{"-failfast", "-run=^TestSimulation$", ".", "-walks=25", "-shrink=0"},
				} {
					command := exec.Command("go", append([]string{"test", "-vet=off", "-overlay=" + overlay}, args...)...)
					command.Dir = root
					if command.Run() != nil {
						return
					}
				}
				t.Errorf("no test notices:\n%s", half)
			})
		}
	}
}

// halves returns each hunk of a diff, and each file that has several, unless it is all of the diff.
func halves(whole string) (all []string) {
	for _, file := range strings.Split("\n"+whole, "\n--- ")[1:] {
		header, rest, _ := strings.Cut(file, "\n@@ ")
		header = "--- " + header + "\n"
		hunks := strings.Split(rest, "\n@@ ")
		if len(hunks) > 1 {
			all = append(all, header+"@@ "+rest)
		}
		for _, hunk := range hunks {
			all = append(all, header+"@@ "+hunk)
		}
	}
	return slices.DeleteFunc(all, func(half string) bool { return strings.TrimSpace(half) == strings.TrimSpace(whole) })
}

// runTests runs the tests of a package that match a pattern, with flags of go test and arguments of the tests, and returns the results by the
// names of the tests, and the output.
func runTests(t *testing.T, pkg, pattern string, flags []string, arguments ...string) (map[string]string, string) {
	t.Helper()
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-timeout=10m", "-run=" + pattern}, flags, []string{"."}, arguments)
	command := exec.Command("go", args...)
	command.Dir = filepath.Join(root, pkg)
	events, _ := command.Output() // A test that fails is no error.
	results := map[string]string{}
	var output strings.Builder
	for line := range bytes.Lines(events) {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("go %q: %v: %s", args, err, line)
		}
		switch event.Action {
		case "run": // If it panics, its result is missing.
			results[event.Test] = "fail"
		case "pass", "fail":
			results[event.Test] = event.Action
		case "output", "build-output":
			if strings.HasPrefix(event.Output, "panic: test timed out") {
				t.Fatalf("go %q: the tests did not end", args)
			}
			output.WriteString(event.Output)
		}
	}
	return results, output.String()
}
