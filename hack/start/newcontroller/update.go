// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// originPath is the file that records the commit and the arguments of make new.
const originPath = ".origin"

func originFile(commit string, in input) file {
	return file{path: originPath, mode: 0o644, content: fmt.Appendf(nil, "COMMIT=%s\nMODULE=%s\nGROUP=%s\nKIND=%s\nPLURAL=%s\n",
		commit, in.module, in.group, in.kind, in.plural)}
}

// readOrigin returns the commit and the arguments of make new that a repository was created with.
func readOrigin(dir string) (commit string, in input, err error) {
	content, err := os.ReadFile(filepath.Join(dir, originPath))
	if err != nil {
		return "", in, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	in = input{values["MODULE"], values["GROUP"], values["KIND"], values["PLURAL"]}
	return values["COMMIT"], in, nil
}

// reviewed are the files whose changes an update shows: those that define a controller.
var reviewed = []string{"controller.go", "main.go", "pkg/apis", "artifacts/install/base/rbac.yaml", "artifacts/chart/templates/rbac.yaml"}

// update merges what has changed since a repository was created into its working tree, as git cherry-pick does: the change is the
// difference between the repository as make new created it and as it would create it now. What is kept is overwritten. It commits nothing,
// and shows the changes to the files that define the controller.
func update(ctx context.Context, root, dir string, out io.Writer) error {
	commit, in, err := readOrigin(dir)
	if err != nil {
		return fmt.Errorf("DIR=%s: not created by make new: %w", dir, err)
	}
	if err := checkCommitted(ctx, dir); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "update-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	old, err := recreate(ctx, root, commit, filepath.Join(dir, originPath), work)
	if err != nil {
		return err
	}
	current := filepath.Join(work, "new")
	if err := run(ctx, root, current, in); err != nil {
		return err
	}
	if err := commitOver(ctx, old, current); err != nil {
		return err
	}
	if _, err := output(ctx, dir, "git", "fetch", "--quiet", "--no-tags", old, "HEAD"); err != nil {
		return err
	}
	edited, err := gitKept(ctx, dir, "diff", "--name-only", "--no-renames", "FETCH_HEAD~", "HEAD")
	if err != nil {
		return err
	}
	_, pickErr := output(ctx, dir, "git", "cherry-pick", "--no-commit", "FETCH_HEAD")
	before, err := conflicts(ctx, dir)
	if err != nil {
		return err
	}
	if pickErr != nil && before == "" {
		return pickErr
	}
	if err := overwriteKept(ctx, dir); err != nil {
		return err
	}
	left, err := conflicts(ctx, dir)
	if err != nil {
		return err
	}
	diff, err := output(ctx, dir, "git", append([]string{"diff", "HEAD", "--"}, reviewed...)...)
	if err != nil {
		return err
	}
	fmt.Fprint(out, diff)
	if edited != "" {
		fmt.Fprintf(out, "\nOverwritten, because these files are kept, and were edited:\n%s", edited)
	}
	if left != "" {
		fmt.Fprintf(out, "\nResolve the conflicts in:\n%s", left)
	}
	fmt.Fprintf(out, "\nUpdated %s from %.12s, without a commit. What has changed in the files that define the controller is shown above.\n"+
		"Run make generate test, and commit; git reset --hard undoes the update.\n", dir, commit)
	return nil
}

// conflicts returns the files with conflicts.
func conflicts(ctx context.Context, dir string) (string, error) {
	return output(ctx, dir, "git", "diff", "--name-only", "--diff-filter=U")
}

// overwriteKept replaces what is kept by that of the fetched repository.
func overwriteKept(ctx context.Context, dir string) error {
	if _, err := gitKept(ctx, dir, "rm", "-r", "--force", "--quiet", "--ignore-unmatch"); err != nil {
		return err
	}
	if _, err := gitKept(ctx, dir, "checkout", "FETCH_HEAD"); err != nil {
		return err
	}
	// The origin conflicts in a repository that is older than this file, and was given one by hand.
	_, err := output(ctx, dir, "git", "checkout", "FETCH_HEAD", "--", originPath, keptPath)
	return err
}

// recreate creates the repository again as it was created from a commit, by the code of that commit. origin is the file with the
// arguments.
func recreate(ctx context.Context, root, commit, origin, work string) (dir string, err error) {
	source, dir := filepath.Join(work, "source"), filepath.Join(work, "old")
	arguments, err := os.ReadFile(origin)
	if err != nil {
		return "", err
	}
	if _, err := output(ctx, root, "git", "clone", "--quiet", ".", source); err != nil {
		return "", err
	}
	if _, err := output(ctx, source, "git", "checkout", "--quiet", commit); err != nil {
		return "", fmt.Errorf("the commit that the repository was created from: %w", err)
	}
	// An empty UPDATE, because make inherits the one of the command line.
	_, err = output(ctx, source, "make", append([]string{"new", "UPDATE=", "DIR=" + dir}, strings.Fields(string(arguments))...)...)
	return dir, errors.Join(err, removeGenerated(ctx, dir))
}

// removeGenerated commits a repository without its generated files, which are generated again rather than merged.
func removeGenerated(ctx context.Context, dir string) error {
	_, err := output(ctx, dir, "git", "rm", "-r", "--quiet", "--ignore-unmatch", "pkg/generated", "*zz_generated.*", "*/crd.yaml")
	return err
}

// commitOver commits the files of a repository in another one, as the change to cherry-pick.
func commitOver(ctx context.Context, old, current string) error {
	if err := removeGenerated(ctx, current); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"commit", "--quiet", "--message", "Old"},
		{"--git-dir=.git", "--work-tree=" + current, "add", "--all", "."},
		{"commit", "--quiet", "--allow-empty", "--message", "New"},
	} {
		if _, err := output(ctx, old, "git", command...); err != nil {
			return err
		}
	}
	return nil
}
