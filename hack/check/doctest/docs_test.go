// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// readDocuments returns all Markdown files of the repository.
func readDocuments(t *testing.T) []*document {
	t.Helper()
	list := output(t, root, "git", "ls-files", "-z", "-co", "--exclude-standard", "--", "*.md")
	var documents []*document
	for path := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		d, err := readDocument(root, path)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, d)
	}
	if !slices.ContainsFunc(documents, func(d *document) bool { return d.path == "README.md" }) {
		t.Fatal("git lists no README.md")
	}
	return documents
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command.Args, err, output)
	}
	return string(output)
}

func TestLinks(t *testing.T) {
	for _, problem := range checkLinks(root, readDocuments(t)) {
		t.Error(problem)
	}
}

func TestReferences(t *testing.T) {
	directories := map[string]string{"client-go/": moduleDir(t, root, "k8s.io/client-go")}
	directories["controller-runtime/"] = moduleDir(t, root+"/hack/check/bench", "sigs.k8s.io/controller-runtime")
	for _, problem := range checkReferences(root, directories, readDocuments(t)) {
		t.Error(problem)
	}
}

// moduleDir returns the directory of a module in the version that another one requires.
func moduleDir(t *testing.T, requiredBy, path string) string {
	t.Helper()
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(output(t, requiredBy, "go", "mod", "download", "-json", path)), &module); err != nil {
		t.Fatal(err)
	}
	return module.Dir
}

// writeDocuments writes files to a directory, and returns those that are Markdown.
func writeDocuments(t *testing.T, files map[string]string) (dir string, documents []*document) {
	t.Helper()
	dir = t.TempDir()
	for path, content := range files {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(path) != ".md" {
			continue
		}
		d, err := readDocument(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, d)
	}
	return dir, documents
}

func TestBrokenLinks(t *testing.T) {
	for link, broken := range map[string]bool{
		"[a](b.md)":                       false,
		"[a](../README.md)":               false,
		"[a](../hack)":                    false,
		"[a](b.md#first-steps-go-run)":    false,
		"[a](b.md#again)":                 false,
		"[a](b.md#again-1)":               false,
		"[a](#here)":                      false,
		"[a](https://kubernetes.io/docs)": false,
		"see https://kubernetes.io.":      false,
		"`[a](missing.md)`":               false,
		"```\n[a](missing.md)\n```":       false,
		"[a](missing.md)":                 true,
		"[a](b.md#missing)":               true,
		"[a](b.md#again-2)":               true,
		"[a](b.md#not-a-heading)":         true,
		"[a](#missing)":                   true,
		"[a](../hack/file.go#L3)":         true,
		"[a](../../outside.md)":           true,
		"[a](/docs/b.md)":                 true,
		"[a]()":                           true,
		"[a](https:/kubernetes.io)":       true,
		"[a](htp://kubernetes.io)":        true,
		"![a](missing.png)":               true,
		`<img src="missing.png">`:         true,
		"[a]: missing.md":                 true,
		"see http://%zz":                  true,
	} {
		dir, documents := writeDocuments(t, map[string]string{
			"README.md":    "# Title\n",
			"hack/file.go": "package hack\n",
			"docs/a.md":    "# Here\n" + link + "\n",
			"docs/b.md":    "# First steps: [`go run`](a.md)\n## Again\n## Again\n```\n# Not a heading\n```\n",
		})
		if problems := checkLinks(dir, documents); len(problems) > 0 != broken {
			t.Errorf("checkLinks() = %q for %s, want broken %v", problems, link, broken)
		}
	}
}

func TestBrokenReferences(t *testing.T) {
	for text, broken := range map[string]bool{
		"`controller.go: syncHandler`":                  false,
		"`controller.go: newDeployment, Controller`":    false,
		"`lib/cache/store.go: field`":                   false,
		"`controller.go`":                               false,
		"`controller.go: syncHandlers`":                 true,
		"`controller.go: newDeployment, controllerRef`": true,
		"`missing.go: syncHandler`":                     true,
		"`lib/cache/missing.go: field`":                 true,
	} {
		dir, documents := writeDocuments(t, map[string]string{
			"docs/a.md":     text + "\n",
			"controller.go": "type Controller struct{}\n\nfunc (c *Controller) syncHandler() {}\n\nfunc newDeployment() {}\n",
		})
		lib, _ := writeDocuments(t, map[string]string{"cache/store.go": "type Store struct {\n\tfield string\n}\n"})
		if problems := checkReferences(dir, map[string]string{"lib/": lib}, documents); len(problems) > 0 != broken {
			t.Errorf("checkReferences() = %q for %s, want broken %v", problems, text, broken)
		}
	}
}

func TestBlockWithoutEnd(t *testing.T) {
	if _, err := parse("a.md", "```shell\nmake\n"); err == nil {
		t.Error("parse() = nil for a code block without end")
	}
}
