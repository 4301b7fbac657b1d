// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExercises(t *testing.T) {
	for _, paths := range Exercises {
		t.Run(filepath.Base(paths[0]), func(t *testing.T) { follow(t, paths) })
	}
}

// follow follows the exercises of documents in a copy of the repository: it applies the diffs and runs the commands, both in their order,
// and compares the outputs. Those of kubectl come last, when the controller has all features.
func follow(t *testing.T, paths []string) {
	dir := filepath.Join(t.TempDir(), "copy")
	copyRepository(t, dir)
	type example struct {
		command
		want string
	}
	var kubectl []example
	for _, path := range paths {
		d, err := readExercises(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		// The exercises begin with the first diff. What precedes them is about other repositories.
		first := slices.IndexFunc(d.blocks, func(b block) bool { return b.language == "diff" })
		for _, b := range d.blocks[max(first, 0):] {
			switch b.language {
			case "diff":
				if err := b.apply(dir); err != nil {
					t.Fatalf("%s:%d: %v", d.path, b.line, err)
				}
			case "shell":
				for line := range strings.Lines(b.text) {
					if words := split(line)[0]; words[0] != "kubectl" { // These are for a later release.
						output(t, dir, words[0], words[1:]...)
					}
				}
			case "console":
				for _, entered := range strings.Split("\n"+b.text, "\n$ ")[1:] {
					line, want, _ := strings.Cut(entered, "\n")
					example := example{command{d, b.line, b.section, split(line)[0]}, want}
					if example.words[0] == "kubectl" {
						kubectl = append(kubectl, example)
						continue
					}
					running := exec.Command(example.words[0], example.words[1:]...)
					running.Dir = dir
					got, _ := running.CombinedOutput() // A test may be shown to fail.
					compare(t, example.command, string(got), want)
				}
			}
		}
	}
	output(t, dir, "go", "vet", "./...")
	// Not those of the tutorial, whose stages are about a Foo as it was.
	output(t, dir, "go", "test", ".", "./pkg/...", "./hack/simulation/...")
	if len(kubectl) == 0 {
		t.Error("the exercises do not use kubectl")
	}
	c := newClusterWithExample(t, dir)
	for _, example := range kubectl {
		compare(t, example.command, c.run(t, example.command), example.want)
	}
}

// copyRepository copies what git would commit, changes in the working tree included.
func copyRepository(t *testing.T, dir string) {
	t.Helper()
	output(t, root, "git", "clone", "--quiet", "--no-local", ".", dir)
	changed := output(t, root, "git", "diff", "--name-only", "--no-renames", "-z", "HEAD") +
		output(t, root, "git", "ls-files", "-z", "-o", "--exclude-standard")
	for path := range strings.SplitSeq(strings.TrimRight(changed, "\x00"), "\x00") {
		target := filepath.Join(dir, path)
		content, err := os.ReadFile(filepath.Join(root, path))
		switch {
		case path == "":
			continue
		case os.IsNotExist(err):
			if err := os.Remove(target); err != nil {
				t.Fatal(err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// newClusterWithExample starts a local Kubernetes with the controller and the example Foo, as make run does.
func newClusterWithExample(t *testing.T, dir string) *localCluster {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "controller")
	output(t, dir, "go", "build", "-o", binary, ".")
	c := newCluster(t, dir, binary)
	for _, line := range []string{
		"kubectl apply -f artifacts/examples/crd.yaml",
		"./sample-controller -kubeconfig=...",
		"kubectl apply -f artifacts/examples/example-foo.yaml",
		"kubectl wait --for=condition=Ready foo/example-foo",
	} {
		c.run(t, command{&document{path: "the example"}, 0, "", split(line)[0]})
	}
	return c
}

// compare compares an output with the one in the document, if it shows one, where "..." stands for any text.
func compare(t *testing.T, command command, got, want string) {
	t.Helper()
	if want == "" {
		return
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, `.*`)
	if !regexp.MustCompile(`(?s)^` + pattern + `$`).MatchString(strings.TrimSpace(got)) {
		t.Errorf("%s:%d: %s prints\n%s\nwant\n%s", command.document.path, command.line, command, got, want)
	}
}
