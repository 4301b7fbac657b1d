// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

var (
	//go:embed test.go.tmpl
	testText     string
	testTemplate = template.Must(template.New("").Parse(testText))
)

// test is the test that the author of the other controller completes. Its exported fields are for the template.
type test struct {
	dir            string // in the module
	Package        string
	Module         string
	PackageDir     string
	IsManager      bool // The controller is one of controller-runtime.
	CRDs, Examples []string
	APIs           []goPackage
	Reconcilers    []reconciler
}

const testFile = "simulation_test.go"

// newTest returns a test with what can be found out of a module.
func newTest(m *module) (*test, error) {
	t := &test{Package: "simulation_test", dir: "test/simulation", Module: m.path, PackageDir: packageDir}
	name, err := packageName(m.dir)
	if err != nil {
		return nil, err
	}
	if t.APIs, t.Reconcilers, err = findCode(m); err != nil {
		return nil, err
	}
	if t.IsManager, err = isManager(m, t.Reconcilers); err != nil {
		return nil, err
	}
	if name != "" && !t.IsManager {
		t.Package, t.dir = name, "." // Package main cannot be imported.
	}
	found, err := findManifests(m.dir)
	if err != nil {
		return nil, err
	}
	t.CRDs, err = t.relative(found.crds)
	if err == nil {
		t.Examples, err = t.relative(found.examples)
	}
	return t, err
}

// relative returns paths in the module as the test has them.
func (t *test) relative(paths []string) (relative []string, err error) {
	for _, path := range paths {
		path, err = filepath.Rel(t.dir, path)
		if err != nil {
			return nil, err
		}
		relative = append(relative, filepath.ToSlash(path))
	}
	return relative, nil
}

// packagePath returns the package as an argument of go test.
func (t *test) packagePath() string {
	if t.dir == "." {
		return "."
	}
	return "./" + t.dir
}

// write writes the test into the module in dir, unless there is one, and says what is in it.
func (t *test) write(dir string, out io.Writer) error {
	name := filepath.Join(t.dir, testFile)
	path := filepath.Join(dir, name)
	if exists(path) {
		fmt.Fprintf(out, "Kept %s.\n", name)
		return nil
	}
	var text bytes.Buffer
	if err := testTemplate.Execute(&text, t); err != nil {
		return err
	}
	content, err := format.Source(text.Bytes())
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		return err
	}
	var crds, examples []string
	for _, l := range layouts {
		crds, examples = append(crds, l.crds), append(examples, l.examples)
	}
	fmt.Fprintf(out, "Created %s. CRDs: %s; examples: %s.\n", name, listed(t.CRDs, crds), listed(t.Examples, examples))
	fmt.Fprintln(out, "Complete it where it says so: see docs/reference/simulation.md.")
	return nil
}

// listed lists what was found, or where it was not.
func listed(names, where []string) string {
	if len(names) == 0 {
		return "none found in " + strings.Join(slices.Compact(where), ", ")
	}
	return strings.Join(names, ", ")
}
