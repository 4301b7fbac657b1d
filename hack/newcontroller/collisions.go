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

// checkCollisions returns an error if a new name is one that the project needs for something else.
func checkCollisions(files []file, n names) error {
	if err := checkPaths(files, n); err != nil {
		return err
	}
	packages := map[string]*goPackage{}
	for _, f := range files {
		if path.Base(f.path) == "go.mod" {
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

// checkPaths returns an error if two files would get the same path, or one that means something else to the go command:
// fake_windows.go is for Windows alone, and fake_test.go is a test.
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
			return fmt.Errorf("MODULE=%s: its last element names the program too, and there is a folder %s", n.module, root)
		}
		if f.isGo() && (strings.HasSuffix(f.path, "_test.go") != strings.HasSuffix(renamed, "_test.go") || constrained(f.path) != constrained(renamed)) {
			return fmt.Errorf("KIND=%s: the go command would take %s for a file for tests or for one platform alone", n.kind, renamed)
		}
	}
	return nil
}

// constrained reports whether a file's name limits it to some platforms.
func constrained(name string) bool {
	elsewhere := build.Default
	elsewhere.GOOS, elsewhere.GOARCH = "none", "none"
	elsewhere.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package p\n")), nil }
	matches, err := elsewhere.MatchFile("", path.Base(name))
	return err != nil || !matches
}

// checkRequirements returns an error if the new module is one that the project imports.
func checkRequirements(f file, n names) error {
	parsed, err := modfile.Parse(f.path, f.content, nil)
	if err != nil {
		return err
	}
	for _, requirement := range parsed.Require {
		if requirement.Mod.Path == n.module {
			return fmt.Errorf("MODULE=%s: the project imports a module of that name", n.module)
		}
	}
	return nil
}

// goPackage knows the names that stand for something in a whole package: those that its files declare at the top level or
// import, by what they are renamed to.
type goPackage struct {
	names
	topLevel map[string]string
}

// check returns an error if a new identifier in the file is a word of the language, or stands for something else in the same
// declaration or in the whole package.
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

// add notes what an identifier is renamed to, and returns an error if that is impossible or another is renamed to the same.
func (p *goPackage) add(f file, old string, names map[string]string) error {
	if f.generated() && !ast.IsExported(old) {
		return nil // The generators see to it that these do not collide.
	}
	renamed, err := p.rename(old, true)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if renamed != old && (!token.IsIdentifier(renamed) || types.Universe.Lookup(renamed) != nil) {
		return fmt.Errorf("KIND=%s, GROUP=%s: the code would need a variable %s, and Go has a word of that name", p.kind, p.group, renamed)
	}
	if other, taken := names[renamed]; taken && other != old {
		return fmt.Errorf("KIND=%s, GROUP=%s: the code has something else already that is called %s (%s)", p.kind, p.group, renamed, f.path)
	}
	names[renamed] = old
	return nil
}

// declared returns the names that a declaration gives to the package. Methods may have the same name if their types differ.
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

// identifiers returns all names in a declaration, but not those after a dot, which are declared elsewhere.
func identifiers(decl ast.Decl) []string {
	var names []string
	afterDot := map[*ast.Ident]bool{}
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			afterDot[node.Sel] = true
		case *ast.Ident:
			if !afterDot[node] {
				names = append(names, node.Name)
			}
		}
		return true
	})
	return names
}
