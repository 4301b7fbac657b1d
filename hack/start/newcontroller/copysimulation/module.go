// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"go/version"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// oldestKubernetes is the oldest version of the k8s.io modules that the simulation compiles with.
const oldestKubernetes = "v0.35.0"

// kubernetes are the modules that have the version of Kubernetes. They require all others that the simulation needs.
var kubernetes = []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}

// module is the other controller's.
type module struct {
	dir, path string
	required  map[string]string // versions by the paths of all modules
	missing   []string          // what go get must add
}

// findModule returns the module in dir, or an error if it cannot have the simulation.
func findModule(ctx context.Context, root, dir string) (*module, error) {
	if dir == "" {
		return nil, errors.New("DIR= is required: the directory of your controller's go.mod, such as DIR=../your-operator")
	}
	absolute, err := resolve(dir)
	if err != nil {
		return nil, fmt.Errorf("DIR=%s: %w", dir, err)
	}
	here, err := resolve(root)
	if err != nil {
		return nil, err
	}
	if inside, err := filepath.Rel(here, absolute); err == nil && filepath.IsLocal(inside) || exists(filepath.Join(absolute, "hack/simulation/apiserver")) {
		return nil, fmt.Errorf("DIR=%s: this project, and what make new creates, have the simulation: see docs/reference/testing.md", dir)
	}
	if created := filepath.Join(absolute, packageDir); exists(created) && !exists(filepath.Join(created, notice)) {
		return nil, fmt.Errorf("DIR=%s: %s exists and is not a copy of the simulation: move it", dir, packageDir)
	}
	parsed, err := readModule(absolute)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("DIR=%s: there is no go.mod: DIR is the directory that has it, and go mod init creates one", dir)
	} else if err != nil {
		return nil, fmt.Errorf("DIR=%s: %w", dir, err)
	}
	own, err := readModule(here)
	if err != nil {
		return nil, err
	}
	if err := checkGo(dir, parsed, own); err != nil {
		return nil, err
	}
	m := &module{dir: absolute, path: parsed.Module.Mod.Path}
	if m.required, err = required(ctx, absolute); err != nil {
		return nil, fmt.Errorf("DIR=%s: %w", dir, err)
	}
	return m, m.checkKubernetes(dir, own)
}

// resolve returns the absolute path of an existing directory.
func resolve(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return "", errors.Join(errors.New("not a directory"), err)
	}
	return absolute, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readModule(dir string) (*modfile.File, error) {
	path := filepath.Join(dir, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := modfile.Parse(path, content, nil)
	if err == nil && parsed.Module == nil {
		err = fmt.Errorf("%s has no module directive", path)
	}
	return parsed, err
}

// checkGo returns an error if the language of a module is too old: new(x) with a value needs Go 1.26, and testing/synctest Go 1.25.
func checkGo(dir string, parsed, own *modfile.File) error {
	has, want := "1.16", own.Go.Version // 1.16 is what a go.mod has that does not say it.
	if parsed.Go != nil {
		has = parsed.Go.Version
	}
	if version.Compare(version.Lang("go"+has), version.Lang("go"+want)) < 0 {
		return fmt.Errorf("DIR=%s: its go.mod has Go %s, and the simulation needs %s: run go -C %[1]s get go@%[3]s", dir, has, want)
	}
	return nil
}

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// required returns the versions of those modules that matter and are required, directly or not. All are not listed: that would need the go.mod
// of each.
func required(ctx context.Context, dir string) (map[string]string, error) {
	const format = "{{if not .Error}}{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}} {{.Path}}{{end}}"
	arguments := append([]string{"list", "-e", "-mod=mod", "-m", "-f", format, controllerRuntime}, kubernetes...)
	list, err := output(ctx, dir, "go", arguments...)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(list) {
		if number, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			versions[path] = number // It is empty if the module is replaced by a directory.
		}
	}
	return versions, nil
}

// checkKubernetes returns an error if a k8s.io module is too old. If a module has none, it gets those of this project.
func (m *module) checkKubernetes(dir string, own *modfile.File) error {
	if _, ok := m.required["k8s.io/client-go"]; !ok {
		for _, r := range own.Require {
			if slices.Contains(kubernetes, r.Mod.Path) {
				m.missing = append(m.missing, r.Mod.String())
			}
		}
		return nil
	}
	all := kubernetes
	if m.required[controllerRuntime] != "" { // One that is older does not compile with them.
		all = append(slices.Clone(all), controllerRuntime)
	}
	for _, path := range kubernetes {
		if has := m.required[path]; has != "" && semver.Compare(has, oldestKubernetes) < 0 {
			parsed, err := readModule(dir)
			if err == nil && slices.ContainsFunc(parsed.Replace, func(r *modfile.Replace) bool { return r.Old.Path == path }) { // go get keeps it.
				return fmt.Errorf("DIR=%s: its go.mod replaces %s by %s, and the simulation needs %s or newer: change its replace directives",
					dir, path, has, oldestKubernetes)
			}
			return fmt.Errorf("DIR=%s: it uses %s %s, and the simulation needs %s or newer: run go -C %[1]s get %[5]s",
				dir, path, has, oldestKubernetes, strings.Join(all, "@latest ")+"@latest")
		}
	}
	return nil
}

// require adds the requirements that are missing, and says which.
func (m *module) require(ctx context.Context, out io.Writer) error {
	before, err := readModule(m.dir)
	if err != nil {
		return err
	}
	if len(m.missing) > 0 {
		if _, err := output(ctx, m.dir, "go", append([]string{"get"}, m.missing...)...); err != nil {
			return err
		}
	}
	if _, err := output(ctx, m.dir, "go", "mod", "tidy"); err != nil {
		return err
	}
	if exists(filepath.Join(m.dir, "vendor/modules.txt")) {
		if _, err := output(ctx, m.dir, "go", "mod", "vendor"); err != nil {
			return err
		}
	}
	after, err := readModule(m.dir)
	if err != nil {
		return err
	}
	had, kept := map[string]bool{}, map[string]bool{}
	for _, r := range after.Require {
		kept[r.Mod.Path] = true
	}
	for _, r := range before.Require {
		if !r.Indirect && !kept[r.Mod.Path] { // Such as that of a controller that only the test will import.
			fmt.Fprintf(out, "Removed from go.mod, as no package imports it yet: %s %s\n", r.Mod.Path, r.Mod.Version)
		}
		had[r.Mod.Path] = !r.Indirect
	}
	for _, r := range after.Require {
		if !r.Indirect && !had[r.Mod.Path] {
			fmt.Fprintf(out, "Added to go.mod: %s %s\n", r.Mod.Path, r.Mod.Version)
		}
	}
	return nil
}
