// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// kept are the folders that a new controller keeps as they are, so that an update overwrites them. They know nothing of the kind, only names
// that follow from the module. Of a folder that ends in /*, the files are kept, and not the folders in it.
var kept = []string{
	"hack/cluster", "hack/models-schema", "hack/release", "hack/simulation/*", "hack/simulation/apiserver", "hack/simulation/recording",
	"hack/tools",
	"pkg/consistency", "pkg/diagnostics", "pkg/election", "pkg/kubeconfig", "pkg/metrics", "pkg/priorityqueue", "pkg/server", "pkg/signals",
}

// isIn reports whether a file is in one of some folders, which are like those of kept.
func (f file) isIn(folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		parent, alone := strings.CutSuffix(folder, "/*")
		return strings.HasPrefix(f.path, folder+"/") || alone && path.Dir(f.path) == parent
	})
}

// keptPath is the file with the hashes of what is kept, by which hack/verify-kept.sh sees what was edited.
const keptPath = "hack/kept.sum"

// writeKept writes the hashes of what is kept to the index and the working tree of a repository.
func writeKept(ctx context.Context, dir string) error {
	list, err := gitKept(ctx, dir, "ls-files", "--stage")
	if err != nil {
		return err
	}
	sum := strings.Join(kept, " ") + "\n"
	for line := range strings.Lines(list) { // mode, hash, stage and path
		hash, name, _ := strings.Cut(line, " 0\t")
		sum += hash[strings.Index(hash, " ")+1:] + " " + name
	}
	if err := os.WriteFile(filepath.Join(dir, keptPath), []byte(sum), 0o644); err != nil {
		return err
	}
	_, err = output(ctx, dir, "git", "add", keptPath)
	return err
}

// gitKept runs git for the folders that are kept.
func gitKept(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, "git", slices.Concat([]string{"--glob-pathspecs"}, args, []string{"--"}, kept)...)
}

// lines are how many lines a new controller has.
type lines struct{ yours, kept, generated int }

// countLines counts the lines of Go, with tests, and of generated code, also of other languages.
func countLines(files []file) (l lines) {
	for _, f := range files {
		switch n := bytes.Count(f.content, []byte("\n")); {
		case f.generated():
			l.generated += n
		case !f.isGo():
		case f.isIn(kept...):
			l.kept += n
		default:
			l.yours += n
		}
	}
	return l
}
