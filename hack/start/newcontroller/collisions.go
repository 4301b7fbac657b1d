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
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// takenSuffix, for custom resource, is what an identifier gets whose new name is taken: foo of the kind Cache becomes cacheCR.
const takenSuffix = "CR"

// avoidCollisions returns the names with the identifiers that get a suffix, because their new names have another meaning in the project.
// It returns an error if a suffix does not help.
func avoidCollisions(files []file, n names) (names, error) {
	if err := checkPaths(files, n); err != nil {
		return n, err
	}
	for _, f := range files {
		if path.Ext(f.path) == ".mod" {
			if err := checkRequirements(f, n); err != nil {
				return n, err
			}
		}
	}
	scopes, err := scopesOf(files)
	if err != nil {
		return n, err
	}
	taken, newNames := map[string]bool{}, map[string]string{}
	for _, s := range scopes {
		used := map[string]string{} // new to old
		for _, old := range slices.Sorted(maps.Keys(s.identifiers)) {
			if newNames[old] == "" {
				if newNames[old], err = n.rename(old, true); err != nil {
					return n, fmt.Errorf("%s: %w", s.path, err)
				}
			}
			renamed := newNames[old]
			other, isUsed := used[renamed]
			used[renamed] = old
			isReserved := renamed != old && (!token.IsIdentifier(renamed) || types.Universe.Lookup(renamed) != nil)
			if !isUsed && !isReserved {
				continue
			}
			if renamed == old {
				old = other // Only one that has a new name can get a suffix.
			}
			if ast.IsExported(old) {
				return n, fmt.Errorf("KIND=%s, GROUP=%s: the identifier %s is already in use (%s): choose another kind or group",
					n.kind, n.group, renamed, s.path)
			}
			taken[old] = true
		}
	}
	n.taken = taken
	return n, nil
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
			return fmt.Errorf("KIND=%s, GROUP=%s: both %s and %s would become %s: choose another kind or group", n.kind, n.group, other, f.path, renamed)
		}
		from[renamed] = f.path
		if root, _, below := strings.Cut(f.path, "/"); below && root == n.name {
			return fmt.Errorf("MODULE=%s: the last element is also the name of the binary, but there is a directory %s: choose another one", n.module, root)
		}
		if f.isGo() && (strings.HasSuffix(f.path, "_test.go") != strings.HasSuffix(renamed, "_test.go") || constrained(f.path) != constrained(renamed)) {
			return fmt.Errorf("KIND=%s: the go command would treat %s as a test or as specific to one platform: choose another kind", n.kind, renamed)
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
			return fmt.Errorf("MODULE=%s: the project requires a module with this path: choose another one", n.module)
		}
	}
	return nil
}

// scope is the top level of a package, or a declaration in it.
type scope struct {
	path        string // the directory or the file
	identifiers map[string]bool
}

// scopesOf returns the scopes of the Go files, without the unexported identifiers of generated ones: the generators avoid collisions.
func scopesOf(files []file) ([]scope, error) {
	var scopes []scope
	packages := map[string]scope{}
	for _, f := range files {
		if !f.isGo() {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(f.path)
		if _, ok := packages[dir]; !ok {
			packages[dir] = scope{dir, map[string]bool{}}
			scopes = append(scopes, packages[dir])
		}
		add := func(s scope, identifiers ...string) {
			for _, identifier := range identifiers {
				if !f.generated() || ast.IsExported(identifier) {
					s.identifiers[identifier] = true
				}
			}
		}
		for _, spec := range parsed.Imports {
			name := path.Base(strings.Trim(spec.Path.Value, `"`))
			if spec.Name != nil {
				name = spec.Name.Name
			}
			add(packages[dir], name)
		}
		for _, decl := range parsed.Decls {
			add(packages[dir], declared(decl)...)
			s := scope{f.path, map[string]bool{}}
			add(s, identifiers(decl)...)
			scopes = append(scopes, s)
		}
	}
	return scopes, nil
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
