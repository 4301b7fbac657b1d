// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/sample-controller/hack/check/doctest"
)

// leaveOutTheRename is a page for a new controller only: here, the tutorial needs what it leaves out.
const leaveOutTheRename = "docs/learn/leave-out-the-rename.md"

// pages are those with changes, each list in the order in which they are followed.
func pages() [][]string { return append(slices.Clone(doctest.Exercises), []string{leaveOutTheRename}) }

// follow makes the changes of a page, in a repository that make new has created: it applies the diffs of the page there, which has the names of
// that repository. It commits nothing, and after an error nothing has changed.
func follow(ctx context.Context, dir, page string, out io.Writer) error {
	if all := slices.Concat(pages()...); !slices.Contains(all, page) {
		return fmt.Errorf("PAGE=%s: must be one of %s", page, strings.Join(all, ", "))
	}
	if _, _, err := readOrigin(dir); err != nil {
		return fmt.Errorf("DIR=%s: not created by make new: %w", dir, err)
	}
	if err := checkCommitted(ctx, dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, page)); err != nil {
		return fmt.Errorf("DIR=%s has no such page; bring it up to date with UPDATE=1: %w", dir, err)
	}
	if err := doctest.ApplyExercises(dir, []string{page}); err != nil {
		for _, undo := range [][]string{{"reset", "--quiet", "--hard"}, {"clean", "--quiet", "--force", "-d"}} {
			if _, err := output(context.WithoutCancel(ctx), dir, "git", undo...); err != nil {
				return err
			}
		}
		hint := "If you have edited these lines, follow the page by hand"
		for _, list := range pages() {
			if i := slices.Index(list, page); i > 0 {
				hint += ". If you have not followed the pages before it, begin with " + list[0]
			}
		}
		return fmt.Errorf("%w\nNothing has changed in %s. %s", err, dir, hint)
	}
	_, err := fmt.Fprintf(out, "Made the changes of %[1]s in %[2]s, without a commit. Next steps:\n  cd %[2]s\n  make generate fmt\n  go test ./...\n"+
		"The page says more. To undo the changes: git reset --hard && git clean -fd\n", page, dir)
	return err
}

// checkCommitted returns an error if there are changes in the working tree.
func checkCommitted(ctx context.Context, dir string) error {
	changes, err := output(ctx, dir, "git", "status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("DIR=%s: commit your changes first", dir)
	}
	return err
}
