// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
)

// checkCollisions returns an error if a new name already has another meaning in the project.
func checkCollisions(files []file, n names) error {
	if err := checkPaths(files, n); err != nil {
		return err
	}
	packages := map[string]*goPackage{}
	for _, f := range files {
		if path.Ext(f.path) == ".mod" {
			if err := checkRequirements(f, n); err != nil {
				return err
			}
		}
		if !f.isGo() {
			continue
		}
		dir := path.Dir(f.path)
		if packages[dir] == nil {
			packages[dir] = &goPackage{names: n, topLevel: map[string]string{}}
		}
		if err := packages[dir].check(f); err != nil {
			return err
		}
	}
	return nil
}

// checkPaths returns an error if two files would get the same path, or one that has a special meaning for the go command, such
// as fake_windows.go or fake_test.go.
func checkPaths(files []file, n names) error {
	from := map[string]string{}
	for _, f := range files {
		renamed, err := n.rename(f.path, false)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if other, taken := from[renamed]; taken {
			return fmt.Errorf("KIND=%s, GROUP=%s: both %s and %s would become %s", n.kind, n.group, other, f.path, renamed)
		}
		from[renamed] = f.path
		if root, _, below := strings.Cut(f.path, "/"); below && root == n.name {
			return fmt.Errorf("MODULE=%s: the last element is also the name of the binary, but there is a directory %s", n.module, root)
		}
		if f.isGo() && (strings.HasSuffix(f.path, "_test.go") != strings.HasSuffix(renamed, "_test.go") || constrained(f.path) != constrained(renamed)) {
			return fmt.Errorf("KIND=%s: the go command would treat %s as a test or as specific to one platform", n.kind, renamed)
		}
	}
	return nil
}

// constrained reports whether a file's name is an implicit build constraint.
func constrained(name string) bool {
	noPlatform := build.Default
	noPlatform.GOOS, noPlatform.GOARCH = "none", "none"
	noPlatform.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package p\n")), nil }
	matches, err := noPlatform.MatchFile("", path.Base(name))
	return err != nil || !matches
}

// checkRequirements returns an error if the project requires a module with the new module's path.
func checkRequirements(f file, n names) error {
	parsed, err := modfile.Parse(f.path, f.content, nil)
	if err != nil {
		return err
	}
	for _, requirement := range parsed.Require {
		if requirement.Mod.Path == n.module {
			return fmt.Errorf("MODULE=%s: the project requires a module with this path", n.module)
		}
	}
	return nil
}

type goPackage struct {
	names
	topLevel map[string]string // new to old identifier, of all imports and top-level declarations
}

// check returns an error if a new identifier in the file is reserved in Go, or already used in the same declaration or at the top
// level of the package.
func (p *goPackage) check(f file) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, spec := range parsed.Imports {
		name := path.Base(strings.Trim(spec.Path.Value, `"`))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if err := p.add(f, name, p.topLevel); err != nil {
			return err
		}
	}
	for _, decl := range parsed.Decls {
		for _, name := range declared(decl) {
			if err := p.add(f, name, p.topLevel); err != nil {
				return err
			}
		}
		used := map[string]string{}
		for _, name := range identifiers(decl) {
			if err := p.add(f, name, used); err != nil {
				return err
			}
		}
	}
	return nil
}

// add records the new name of an identifier in names, which maps new to old ones. It returns an error if the new name is not
// possible or taken.
func (p *goPackage) add(f file, old string, names map[string]string) error {
	if f.generated() && !ast.IsExported(old) {
		return nil // The generators avoid collisions of these.
	}
	renamed, err := p.rename(old, true)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if renamed != old && (!token.IsIdentifier(renamed) || types.Universe.Lookup(renamed) != nil) {
		return fmt.Errorf("KIND=%s, GROUP=%s: the identifier %s would be a keyword or a predeclared name of Go", p.kind, p.group, renamed)
	}
	if other, taken := names[renamed]; taken && other != old {
		return fmt.Errorf("KIND=%s, GROUP=%s: the identifier %s is already in use (%s)", p.kind, p.group, renamed, f.path)
	}
	names[renamed] = old
	return nil
}

// declared returns the names that a declaration adds to the package scope.
func declared(decl ast.Decl) []string {
	var names []string
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			names = append(names, decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// identifiers returns all identifiers in a declaration except the selectors after a dot, which are declared elsewhere.
func identifiers(decl ast.Decl) []string {
	var names []string
	selectors := map[*ast.Ident]bool{}
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			selectors[node.Sel] = true
		case *ast.Ident:
			if !selectors[node] {
				names = append(names, node.Name)
			}
		}
		return true
	})
	return names
}
