// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// sources finds the function of a line of code of this project.
type sources struct {
	files map[string]*source // by package directory and file name, as in the caller of a log line; in the root by file name alone
	names map[string]string  // descriptions of functions by name
}

// source is a parsed file.
type source struct {
	name      string // to show
	functions []function
}

type function struct {
	name        string
	first, last int // lines
}

func (s *source) at(line int) string {
	for _, f := range s.functions {
		if f.first <= line && line <= f.last {
			return fmt.Sprintf("%s:%d %s", s.name, line, f.name)
		}
	}
	return fmt.Sprintf("%s:%d", s.name, line)
}

// readSources reads the project in root. Its main package is the one whose files are in root itself.
func readSources(root string) (*sources, error) {
	s := &sources{files: map[string]*source{}, names: map[string]string{}}
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
		parsed, err := parse(file, name)
		if err != nil {
			return err
		}
		s.files[path.Join(path.Base(path.Dir(name)), path.Base(name))] = parsed
		for _, f := range parsed.functions {
			s.names[f.name] = parsed.at(f.first)
		}
		return nil
	})
	return s, err
}

func parse(file, name string) (*source, error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{name: name}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			s.functions = append(s.functions,
				function{f.Name.Name, positions.Position(f.Pos()).Line, positions.Position(f.End()).Line})
		}
	}
	return s, nil
}

// caller returns file, line and function for the caller in a log line, such as consistency/consistency.go:20. It is unchanged if it is not of
// this project.
func (s *sources) caller(caller string) string {
	name, number, _ := strings.Cut(caller, ":")
	line, err := strconv.Atoi(number)
	file := s.files[name]
	if file == nil {
		file = s.files[path.Base(name)]
	}
	if file == nil || err != nil {
		return caller
	}
	return file.at(line)
}

// ours returns file, line and name of a function of this project, or the name if there is none.
func (s *sources) ours(name string) string {
	if code, ok := s.names[name]; ok {
		return code
	}
	return name
}
