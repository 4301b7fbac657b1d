// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// source is the commit that a release is built from.
type source struct {
	dir      string // a clone in which the version is the only tag, so that the go command stamps it into the binaries
	version  string // v1.2.3
	commit   string
	time     time.Time // of the commit
	module   string    // path of the Go module
	previous string    // version of the release before, or "" if there is none
	changes  []change  // since the release before
}

// change is a commit.
type change struct{ commit, subject string }

// checkVersion returns an error of one line unless the version can be that of a Go module with this path.
func checkVersion(version, modulePath string) error {
	if version == "" {
		return errors.New("VERSION= is required, such as VERSION=v1.2.3")
	}
	if semver.Canonical(version) != version {
		return fmt.Errorf("VERSION=%s: must be a semantic version with v and without build metadata, such as v1.2.3 or v1.2.3-rc.1", version)
	}
	if _, major, _ := module.SplitPathVersion(modulePath); !module.MatchPathMajor(version, major) {
		return fmt.Errorf("VERSION=%s: the module path %s is for another major version", version, modulePath)
	}
	return nil
}

// checkRepository returns the commit to release, HEAD. It returns an error of one line if the version is not valid, the working
// tree differs from the commit, or the version is the tag of another commit.
func checkRepository(ctx context.Context, root, version string) (string, error) {
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	if err := checkVersion(version, modfile.ModulePath(goMod)); err != nil {
		return "", err
	}
	commit, err := git(ctx, root, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", fmt.Errorf("a release is built from a commit: %w", err)
	}
	if shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository"); err != nil {
		return "", err
	} else if shallow == "true" {
		return "", errors.New("the history is incomplete, so the changes are unknown; run: git fetch --unshallow --tags")
	}
	status, err := git(ctx, root, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return "", err
	}
	if status != "" {
		lines := strings.Split(status, "\n")
		return "", fmt.Errorf("the working tree differs from the commit; commit or remove the changes (git status): %d files, such as %q",
			len(lines), strings.TrimSpace(lines[0]))
	}
	tagged, err := git(ctx, root, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+version)
	if err != nil {
		return "", err
	}
	if tagged != "" && !strings.Contains(tagged, commit) {
		return "", fmt.Errorf("VERSION=%s: the tag is on another commit; run: git checkout %[1]s", version)
	}
	return commit, nil
}

// newSource clones the commit into dir.
func newSource(ctx context.Context, root, commit, version, dir string) (source, error) {
	s := source{dir: dir, version: version, commit: commit}
	root, err := filepath.Abs(root)
	if err != nil {
		return s, err
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-checkout", "--no-tags", "--template=", root, dir},
		{"-C", dir, "checkout", "--quiet", "--detach", commit},
		{"-C", dir, "-c", "tag.gpgSign=false", "tag", version},
	} {
		if _, err := git(ctx, root, args...); err != nil {
			return s, err
		}
	}
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return s, err
	}
	s.module = modfile.ModulePath(goMod)
	seconds, err := git(ctx, root, "rev-list", "--max-count=1", "--no-commit-header", "--format=%ct", commit)
	if err != nil {
		return s, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, err
	}
	s.time = time.Unix(unix, 0).UTC()
	tags, err := git(ctx, root, "tag", "--list", "--merged", commit)
	if err != nil {
		return s, err
	}
	s.previous = previousVersion(strings.Fields(tags), version)
	s.changes, err = changesSince(ctx, root, s.previous, commit)
	return s, err
}

// previousVersion returns the highest version below the given one, or "" if there is none. The changes of a final release include
// those of its pre-releases.
func previousVersion(tags []string, version string) string {
	previous := ""
	for _, tag := range tags {
		switch {
		case semver.Canonical(tag) != tag || semver.Compare(tag, version) >= 0:
		case semver.Prerelease(version) == "" && semver.Prerelease(tag) != "":
		case semver.Compare(tag, previous) > 0:
			previous = tag
		}
	}
	return previous
}

// changesSince returns the commits after a tag, newest first.
func changesSince(ctx context.Context, root, tag, commit string) ([]change, error) {
	if tag == "" {
		return nil, nil
	}
	list, err := git(ctx, root, "rev-list", "--topo-order", "--no-merges", "--no-commit-header", "--format=%H %s", "refs/tags/"+tag+".."+commit)
	if err != nil {
		return nil, err
	}
	var changes []change
	for line := range strings.Lines(list) {
		hash, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		changes = append(changes, change{commit: hash, subject: subject})
	}
	return changes, nil
}

// git returns the output of a git command without the final newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); ctx.Err() != nil {
		return "", context.Cause(ctx)
	} else if err != nil {
		message, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, message)
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}
