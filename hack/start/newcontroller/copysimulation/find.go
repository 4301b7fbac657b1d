// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifests are the YAML files of CRDs, and of custom resources, by their paths in a module.
type manifests struct{ crds, examples []string }

// layouts are where projects have them: those of kubebuilder, those like the classic sample-controller, and a few others.
var layouts = []struct{ crds, examples string }{
	{"config/crd/bases", "config/samples"}, {"config/crds/bases", "config/samples"}, {"config/crds/v1", "config/samples/*"},
	{"artifacts/examples", "artifacts/examples"},
	{"manifests/crds", "examples"}, {"deploy/crds", "deploy/examples"},
}

// findManifests returns those of the first layout that a module has, in its root or, of a larger project, below.
func findManifests(dir string) (found manifests, err error) {
	for _, below := range []string{"", "*", "*/*"} {
		if found, err = findBelow(dir, below); err != nil || len(found.crds) > 0 {
			return found, err
		}
	}
	if exists(filepath.Join(dir, "config/crd")) {
		return found, errors.New("there is no CRD in config/crd/bases: run make manifests there first")
	}
	return found, nil
}

// findBelow returns those in the directories that match a pattern.
func findBelow(dir, pattern string) (found manifests, err error) {
	for _, l := range layouts {
		kinds := map[schema.GroupKind]string{} // to the files of their CRDs
		err := eachObject(dir, path.Join(pattern, l.crds), func(file string, o *unstructured.Unstructured) {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, isCRD, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			if id := (schema.GroupKind{Group: group, Kind: kind}); isCRD && (kinds[id] == "" || hasStatus(o)) {
				kinds[id] = file
			}
		})
		if err != nil {
			return found, err
		}
		for _, file := range kinds {
			found.crds = append(found.crds, file)
		}
		err = eachObject(dir, path.Join(pattern, l.examples), func(file string, o *unstructured.Unstructured) {
			if kinds[o.GroupVersionKind().GroupKind()] != "" {
				found.examples = append(found.examples, file)
			}
		})
		for _, files := range []*[]string{&found.crds, &found.examples} {
			slices.Sort(*files)
			*files = slices.Compact(*files)
		}
		if err != nil || len(found.crds) > 0 {
			return found, err
		}
	}
	return found, nil
}

// hasStatus reports whether all versions of a CRD have the subresource status, of two CRDs of a kind the better one.
func hasStatus(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return !slices.ContainsFunc(versions, func(v any) bool {
		fields, _ := v.(map[string]any)
		_, ok, _ := unstructured.NestedMap(fields, "subresources", "status")
		return !ok
	})
}

// eachObject calls do with each object in the YAML files of the directories that match a pattern.
func eachObject(dir, pattern string, do func(file string, o *unstructured.Unstructured)) error {
	files, err := filepath.Glob(filepath.Join(dir, pattern, "*.y*ml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(strings.Split(filepath.ToSlash(relative), "/"), isOthers) {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if o.Object != nil {
				do(filepath.ToSlash(relative), o)
			}
		}
	}
	return nil
}

// isOthers reports whether a directory has code that is not the controller's.
func isOthers(name string) bool {
	return slices.Contains([]string{"test", "testdata", "vendor"}, name) || strings.HasPrefix(name, ".")
}

// goPackage is a package that the test imports.
type goPackage struct{ Path, Alias string }

// Spec returns the import.
func (p goPackage) Spec() string {
	if path.Base(p.Path) == p.Alias {
		return fmt.Sprintf("%q", p.Path)
	}
	return fmt.Sprintf("%s %q", p.Alias, p.Path)
}

// reconciler is a type with the method SetupWithManager.
type reconciler struct {
	goPackage
	Type, Fields string
	Missing      string // the fields that the test does not set
}

// findCode returns the API packages of a module, and its reconcilers, where kubebuilder has them.
func findCode(m *module) (apis []goPackage, reconcilers []reconciler, err error) {
	aliases := map[string]bool{}
	for _, below := range []string{"api", "apis", "internal/controller", "controllers"} {
		root := filepath.Join(m.dir, below)
		err := filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return ignoreMissing(err)
			}
			if isOthers(entry.Name()) {
				return filepath.SkipDir
			}
			files, err := parseDir(dir)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(m.dir, dir)
			if err != nil {
				return err
			}
			relative = filepath.ToSlash(relative)
			p := goPackage{Path: path.Join(m.path, relative), Alias: aliasOf(relative, aliases)}
			if declaresVariable(files, "AddToScheme") {
				apis = append(apis, p)
			}
			for _, name := range withMethod(files, "SetupWithManager") {
				r := reconciler{goPackage: p, Type: name}
				r.Fields, r.Missing = fieldsOf(files, name)
				reconcilers = append(reconcilers, r)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return apis, reconcilers, nil
}

// aliasOf returns the last two elements of a path, and more if another package has that alias.
func aliasOf(relative string, taken map[string]bool) string {
	alias, rest := strings.ReplaceAll(path.Base(relative), "-", ""), path.Dir(relative)
	for n := 0; rest != "." && path.Base(rest) != "internal" && (n == 0 || taken[alias]); n++ {
		alias, rest = strings.ReplaceAll(path.Base(rest), "-", "")+alias, path.Dir(rest)
	}
	taken[alias] = true
	return alias
}

// isManager reports whether a controller is one of controller-runtime: it has reconcilers, or imports what makes a manager.
func isManager(m *module, reconcilers []reconciler) (is bool, err error) {
	if _, ok := m.required[controllerRuntime]; !ok || len(reconcilers) > 0 {
		return ok, nil
	}
	err = filepath.WalkDir(m.dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != m.dir && (isOthers(entry.Name()) || strings.HasSuffix(filepath.ToSlash(name), "/"+packageDir)):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(name)
		is = is || bytes.Contains(content, []byte(`"`+controllerRuntime+`"`)) || bytes.Contains(content, []byte(`"`+controllerRuntime+`/pkg/manager"`))
		return err
	})
	return is, err
}

// Packages returns the packages of the reconcilers, once each.
func (t *test) Packages() (packages []goPackage) {
	for _, r := range t.Reconcilers {
		if !slices.Contains(packages, r.goPackage) {
			packages = append(packages, r.goPackage)
		}
	}
	return packages
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// parseDir parses the Go files of a directory, without tests.
func parseDir(dir string) (files []*ast.File, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// packageName returns the name of the package in a directory, or "" if there is none.
func packageName(dir string) (string, error) {
	files, err := parseDir(dir)
	if err != nil || len(files) == 0 {
		return "", err
	}
	return files[0].Name.Name, nil
}

func declaresVariable(files []*ast.File, name string) bool {
	for decl := range specsOf[*ast.ValueSpec](files) {
		if slices.ContainsFunc(decl.Names, func(id *ast.Ident) bool { return id.Name == name }) {
			return true
		}
	}
	return false
}

// withMethod returns the exported types of which a pointer has a method with one parameter.
func withMethod(files []*ast.File, method string) (names []string) {
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != method || f.Type.Params.NumFields() != 1 {
				continue
			}
			receiver := f.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if id, ok := receiver.(*ast.Ident); ok && id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// fieldsOf returns the values of the fields of a reconciler that a manager has, and the names of its other ones.
func fieldsOf(files []*ast.File, name string) (fields, missing string) {
	var known, unknown []string
	for spec := range specsOf[*ast.TypeSpec](files) {
		structure, ok := spec.Type.(*ast.StructType)
		if spec.Name.Name != name || !ok {
			continue
		}
		for _, field := range structure.Fields.List {
			names := field.Names
			if selector, ok := field.Type.(*ast.SelectorExpr); ok && len(names) == 0 {
				names = []*ast.Ident{selector.Sel} // It is embedded.
			}
			for _, id := range names {
				switch {
				case id.Name == "Client" || id.Name == "Scheme":
					known = append(known, fmt.Sprintf("%s: manager.Get%[1]s()", id.Name))
				case id.IsExported():
					unknown = append(unknown, id.Name)
				}
			}
		}
	}
	return strings.Join(known, ", "), strings.Join(unknown, ", ")
}

// specsOf iterates over the declarations of a kind at the top level of files.
func specsOf[T ast.Spec](files []*ast.File) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for _, file := range files {
			for _, decl := range file.Decls {
				general, _ := decl.(*ast.GenDecl)
				if general == nil {
					continue
				}
				for _, spec := range general.Specs {
					if s, ok := spec.(T); ok && !yield(s) {
						return
					}
				}
			}
		}
	}
}
