// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	sourceDir = "hack/simulation"
	// packageDir is where the copy is. No other module can import it, so that an update may change it.
	packageDir = "internal/simulation"
	notice     = "README.md"
	// sourcePath is the import path of what is copied.
	sourcePath = "k8s.io/sample-controller/" + sourceDir
)

// packages are those that are copied, below sourceDir and packageDir.
var packages = []string{"", "apiserver", "recording"}

// noticeFormat is the file that says what the copy is. Its argument is the commit.
const noticeFormat = `# Simulation

Walks of a controller in a simulated cluster, in virtual time. This is a copy of hack/simulation of
[sample-controller](https://github.com/kubernetes/sample-controller) at %s, Copyright The sample-controller authors, Apache-2.0: see
[LICENSE](LICENSE).

Do not edit it: ` + "`make simulation DIR=...`" + ` there updates it, and ` + "`docs/reference/simulation.md`" + ` there explains it.
`

// readPackage returns the files of the copy, by their paths in packageDir, with the import paths of a module.
func readPackage(root, module string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range packages {
		sources, err := filepath.Glob(filepath.Join(root, sourceDir, name, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue // It tests the simulation.
			}
			content, err := os.ReadFile(source)
			if err != nil {
				return nil, err
			}
			content = []byte(strings.ReplaceAll(string(content), `"`+sourcePath, `"`+module+"/"+packageDir))
			files[filepath.Join(name, filepath.Base(source))] = content
		}
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	files["LICENSE"] = license
	return files, err
}

// writePackage replaces the copy in dir by files.
func writePackage(ctx context.Context, root, dir string, files map[string][]byte) error {
	commit, err := output(ctx, root, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	if err != nil {
		return fmt.Errorf("run it in a clone of this repository: %w", err)
	}
	files[notice] = fmt.Appendf(nil, noticeFormat, strings.TrimSpace(commit))
	for _, name := range packages {
		target := filepath.Join(dir, packageDir, name)
		old, err := filepath.Glob(filepath.Join(target, "*.go"))
		for _, path := range old {
			if !strings.HasSuffix(path, "_test.go") {
				err = errors.Join(err, os.Remove(path))
			}
		}
		if err := errors.Join(err, os.MkdirAll(target, 0o755)); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, packageDir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
