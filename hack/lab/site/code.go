// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// code says where the functions of the project are. The lab shows them with the steps.
type code struct {
	Files map[string]source `json:"files"` // by package directory and file name, as in the caller of a log line; in the root by file name alone
}

type source struct {
	Name      string     `json:"name"`
	Functions []function `json:"functions"`
}

type function struct {
	Name  string `json:"name"`
	First int    `json:"first"` // line
	Last  int    `json:"last"`
}

// readCode reads the project in root: its main package, and pkg without what is generated.
func readCode(root string) (code, error) {
	c := code{map[string]source{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name != "." && (name[0] == '.' || !strings.HasPrefix(name, "pkg") || strings.HasSuffix(name, "generated")) {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		functions, err := parse(file)
		c.Files[path.Join(path.Base(path.Dir(name)), path.Base(name))] = source{name, functions}
		return err
	})
	return c, err
}

// parse returns the functions of a file.
func parse(file string) (functions []function, err error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			functions = append(functions, function{f.Name.Name, positions.Position(f.Pos()).Line, positions.Position(f.End()).Line})
		}
	}
	return functions, nil
}
