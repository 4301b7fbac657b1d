// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checkDir returns the absolute path of the new repository, which must be empty or not exist, and be outside of this one.
func checkDir(ctx context.Context, root, dir string) (string, error) {
	if dir == "" {
		return "", errors.New("DIR= is required, such as DIR=../db-controller")
	}
	parent, err := filepath.Abs(filepath.Dir(filepath.Clean(dir)))
	if err == nil {
		parent, err = filepath.EvalSymlinks(parent)
	}
	if err != nil {
		return "", fmt.Errorf("DIR=%s: parent directory: %w", dir, err)
	}
	path := filepath.Join(parent, filepath.Base(filepath.Clean(dir)))
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("DIR=%s: %w", dir, err)
	case !info.IsDir():
		return "", fmt.Errorf("DIR=%s: not a directory", dir)
	default:
		entries, err := os.ReadDir(path)
		if err != nil {
			return "", fmt.Errorf("DIR=%s: %w", dir, err)
		}
		if len(entries) > 0 {
			return "", fmt.Errorf("DIR=%s: the directory is not empty", dir)
		}
	}
	here, err := filepath.Abs(root)
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return "", err
	}
	if inside, err := filepath.Rel(here, path); err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
		return "", fmt.Errorf("DIR=%s: the directory is inside this repository", dir)
	}
	if _, err := output(ctx, parent, "git", "var", "GIT_AUTHOR_IDENT"); err != nil {
		return "", errors.New("git has no identity for commits: set user.name and user.email with git config --global")
	}
	return path, nil
}

// write creates the new repository in a temporary directory next to dir, and renames that to dir when it is complete.
func write(ctx context.Context, root, dir string, files []file, n names, in input) error {
	commit, err := output(ctx, root, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	commit = strings.TrimSpace(commit)
	short := commit[:min(len(commit), 12)]
	staging, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	for _, f := range append(files, originFile(commit, in)) {
		if f.path == "README.md" {
			f.content = append(f.content, provenance...)
		}
		if err := f.write(staging); err != nil {
			return err
		}
		if filepath.Base(f.path) == "go.mod" {
			// Sorts the requirements again, some of which have new names.
			if _, err := output(ctx, filepath.Join(staging, filepath.Dir(f.path)), "go", "mod", "edit", "-fmt"); err != nil {
				return err
			}
		}
	}
	for _, command := range [][]string{
		{"git", "init", "--quiet", "--template="}, // No sample hooks.
		{"hack/update-codegen.sh"},
		{"go", "-C", "hack/e2e", "mod", "tidy"}, // Tests that are left out need more modules.
		{"git", "add", "--all"},
	} {
		if _, err := output(ctx, staging, command[0], command[1:]...); err != nil {
			return err
		}
	}
	if err := writeKept(ctx, staging); err != nil {
		return err
	}
	message := fmt.Sprintf("Create %s\n\nCopied from sample-controller at %s, with new names.", n.name, short)
	if _, err := output(ctx, staging, "git", "commit", "--quiet", "--message", message); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(staging, dir)
}

// provenance is the only line that names the original. The commit is in originPath alone: here, it would conflict in each update.
const provenance = "\nBased on sample-controller (k8s.io/sample-controller), Copyright The sample-controller authors, Apache-2.0. " +
	"To bring this up to date, run `make new DIR=path/to/this UPDATE=1` in a clone of it.\n"

func (f file) write(dir string) error {
	path := filepath.Join(dir, f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, f.content, f.mode)
}
