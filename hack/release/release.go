// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	name = "sample-controller"
	// distDir is the directory of the files, in the root of the repository.
	distDir = "dist"
)

// release is a release while it is being built.
type release struct {
	source
	image    string // name without tag
	work     string // directory for temporary files
	files    string // directory of the files until they are complete
	progress io.Writer
}

// run builds the release in the directory dist of the repository in root, and replaces a former one. All input is validated
// before anything is built, and a failure leaves dist as it was.
func run(ctx context.Context, root, version, image string, progress io.Writer) error {
	commit, err := checkRepository(ctx, root, version)
	if err != nil {
		return err
	}
	if err := checkImage(image, version); err != nil {
		return err
	}
	// On the same file system as dist, and ignored by git.
	build := filepath.Join(root, ".build")
	if err := os.MkdirAll(build, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(build, "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if work, err = filepath.Abs(work); err != nil {
		return err
	}
	source, err := newSource(ctx, root, commit, version, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	r := release{source: source, image: image, work: work, files: filepath.Join(work, distDir), progress: progress}
	if err := os.Mkdir(r.files, 0o755); err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return err
	}
	dist := filepath.Join(root, distDir)
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.Rename(r.files, dist); err != nil {
		return err
	}
	fmt.Fprintf(progress, "Wrote %s %s to %s\n", name, version, dist)
	return nil
}

// build writes all files.
func (r *release) build(ctx context.Context) error {
	binaries, err := r.compileAll(ctx)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if err := r.writeBinary(b); err != nil {
			return err
		}
	}
	digest, err := r.writeImage(ctx)
	if err != nil {
		return err
	}
	image := r.pinnedImage(digest)
	if err := r.writeManifests(image); err != nil {
		return err
	}
	if err := r.writeChart(image); err != nil {
		return err
	}
	if err := r.writeBOM(binaries); err != nil {
		return err
	}
	if err := r.writeNotes(image, digest, binaries[0].info.GoVersion); err != nil {
		return err
	}
	return r.writeChecksums()
}

// fileName returns the name of a file with the release's name and version.
func (r *release) fileName(suffix string) string {
	return name + "-" + r.version + "-" + suffix
}

func (r *release) writeFile(file string, content []byte) error {
	fmt.Fprintf(r.progress, "Writing %s\n", file)
	return os.WriteFile(filepath.Join(r.files, file), content, 0o644)
}

// writeChecksums writes the checksums of all other files in the format of sha256sum.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.files) // Sorted.
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.files, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return r.writeFile("SHA256SUMS", sums.Bytes())
}
