// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/distribution/reference"
)

// checkImage returns an error of one line unless the image is a name that the version can be the tag of.
func checkImage(image, version string) error {
	named, err := reference.ParseNormalizedNamed(image)
	switch {
	case err != nil:
		return fmt.Errorf("IMAGE=%s: %w", image, err)
	case !reference.IsNameOnly(named):
		return fmt.Errorf("IMAGE=%s: must be a name without tag and digest, because the tag is the version", image)
	}
	if _, err := reference.WithTag(named, version); err != nil {
		return fmt.Errorf("VERSION=%s: cannot be the tag of an image: %w", version, err)
	}
	return nil
}

// writeImage writes the archive of the image, and returns the digest that the image has in a registry.
func (r *release) writeImage(ctx context.Context) (string, error) {
	file := r.fileName("image.tar")
	fmt.Fprintf(r.progress, "Writing %s\n", file)
	builder := filepath.Join(r.work, "image")
	if err := r.goCommand(ctx, filepath.Join(r.dir, "hack", "release"), nil, "build", "-o", builder, "./image"); err != nil {
		return "", fmt.Errorf("compiling hack/release/image failed: %w", err)
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, builder, "-source="+r.dir, "-buildvcs=true", "-image="+r.image+":"+r.version,
		"-output="+filepath.Join(r.files, file))
	cmd.Stdout, cmd.Stderr = &output, r.progress
	if err := cmd.Run(); ctx.Err() != nil {
		return "", context.Cause(ctx)
	} else if err != nil {
		return "", fmt.Errorf("building the image failed: %w", err)
	}
	digest := regexp.MustCompile(`(?m)^Digest: (sha256:[0-9a-f]{64})$`).FindStringSubmatch(output.String())
	if digest == nil {
		return "", errors.New("hack/release/image printed no digest")
	}
	return digest[1], nil
}

// pinnedImage returns the image that the manifests refer to. An image of a registry is referred to by its digest too, because a tag
// can be moved. One without registry is loaded onto the nodes, where it has no digest.
func (r *release) pinnedImage(digest string) string {
	image := r.image + ":" + r.version
	if strings.Contains(r.image, "/") {
		image += "@" + digest
	}
	return image
}
