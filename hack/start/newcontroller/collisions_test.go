// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"strings"
	"testing"
)

// takenKinds mean something else in the project or, the last two, in Go.
var takenKinds = []string{
	"Cache", "Image", "Index", "Key", "Object", "Option", "Owner", "Record", "Result", "Server", "Store", "Trial", "User", "Error", "Map",
}

// TestTakenKinds type-checks the root module, with its tests and its generated code, under the names of such kinds.
func TestTakenKinds(t *testing.T) {
	files, err := readFiles(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]file{}
	for i, f := range files {
		if f.generated() { // The word has no new name. A new controller does not get the file: it is generated again.
			files[i].content = bytes.ReplaceAll(f.content, []byte("footprint"), []byte("size"))
		}
		byPath[f.path] = files[i]
	}
	const packages = `{{.ImportPath}};{{.Dir}};{{join .GoFiles " "}};{{join .TestGoFiles " "}};{{join .XTestGoFiles " "}}`
	listed := strings.Split(strings.TrimSpace(command(t, root, "go", "list", "-f", packages, "./...")), "\n")
	top := command(t, root, "go", "list", "-f", "{{.Root}}", ".")
	dependencies := dependencyImporter(t)
	for _, kind := range takenKinds {
		t.Run(kind, func(t *testing.T) {
			n, err := newNames("example.com/my-controller", "kube.example.com", kind, "") // The prefix kube is taken, too.
			if err != nil {
				t.Fatal(err)
			}
			if n, err = avoidCollisions(files, n); err != nil {
				t.Fatal(err)
			}
			c := checker{t: t, dependencies: dependencies, sources: map[string][3][]*ast.File{}, imported: map[string]*types.Package{}}
			for _, line := range listed {
				fields := strings.Split(line, ";")
				dir := strings.TrimPrefix(strings.TrimPrefix(fields[1], strings.TrimSpace(top)), "/")
				var sources [3][]*ast.File
				for i, names := range fields[2:] {
					for name := range strings.FieldsSeq(names) {
						f, ok := byPath[path.Join(dir, name)]
						if !ok {
							continue // Not in a new controller.
						}
						if f, err = f.renamed(n); err != nil {
							t.Fatal(err)
						}
						parsed, err := parser.ParseFile(fileSet, f.path, f.content, parser.SkipObjectResolution)
						if err != nil {
							t.Fatal(err)
						}
						sources[i] = append(sources[i], parsed)
					}
				}
				importPath, err := n.rename(fields[0], false)
				if err != nil {
					t.Fatal(err)
				}
				c.sources[importPath] = sources
			}
			for importPath, s := range c.sources {
				if _, err := c.Import(importPath); err != nil {
					t.Error(err)
				}
				if len(s[1]) > 0 {
					c.check(importPath, append(s[0], s[1]...))
				}
				if len(s[2]) > 0 {
					c.check(importPath+"_test", s[2])
				}
			}
		})
	}
}

var fileSet = token.NewFileSet()

// dependencyImporter imports the packages that the root module depends on, as the go command has compiled them.
func dependencyImporter(t *testing.T) types.Importer {
	t.Helper()
	exports := map[string]string{}
	const compiled = `{{if and .Export (not .ForTest)}}{{.ImportPath}} {{.Export}}{{end}}`
	for line := range strings.Lines(command(t, root, "go", "list", "-deps", "-test", "-export", "-f", compiled, "./...")) {
		importPath, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[importPath] = export
	}
	return importer.ForCompiler(fileSet, "gc", func(importPath string) (io.ReadCloser, error) {
		if exports[importPath] == "" {
			return nil, fmt.Errorf("no dependency of the project: %s", importPath)
		}
		return os.Open(exports[importPath])
	})
}

// checker type-checks packages of a new controller.
type checker struct {
	t            *testing.T
	dependencies types.Importer
	sources      map[string][3][]*ast.File // by import path: of the package, its tests, and those outside of it
	imported     map[string]*types.Package
}

// Import implements types.Importer.
func (c checker) Import(importPath string) (*types.Package, error) {
	s, ok := c.sources[importPath]
	if !ok {
		return c.dependencies.Import(importPath)
	}
	if c.imported[importPath] == nil {
		c.imported[importPath] = c.check(importPath, s[0])
	}
	return c.imported[importPath], nil
}

func (c checker) check(importPath string, files []*ast.File) *types.Package {
	config := types.Config{Importer: c, Error: func(err error) { c.t.Error(err) }}
	p, _ := config.Check(importPath, fileSet, files, nil)
	return p
}
