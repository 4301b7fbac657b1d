// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	entrypoint = "/sample-controller"
	// user is numeric because runAsNonRoot cannot verify a name.
	user = "65532:65532"
)

// buildIndex compiles the controller for all platforms and returns an index of their images.
func buildIndex(ctx context.Context, o options, progress io.Writer) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for _, platform := range o.platforms {
		p, err := compile(ctx, o.source, platform, o.buildVCS, progress)
		if err != nil {
			return nil, err
		}
		image, err := newImage(platform, p)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        plainImage{image},
			Descriptor: v1.Descriptor{Platform: &platform},
		})
	}
	return index, nil
}

// plainImage keeps the library from setting an artifactType in the index, which is meant for artifacts other than images.
type plainImage struct{ v1.Image }

func (plainImage) ArtifactType() (string, error) { return "", nil }

// newImage returns an image that contains nothing but the program.
func newImage(platform v1.Platform, p program) (v1.Image, error) {
	layer, err := newLayer(p.binary)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		Created:      v1.Time{Time: p.time},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{entrypoint},
			User:       user,
			Labels:     labels(p),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: p.time}, CreatedBy: "make image"},
	})
}

func labels(p program) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":    "sample-controller",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if p.version != "" {
		all["org.opencontainers.image.version"] = p.version
	}
	if p.revision != "" {
		all["org.opencontainers.image.revision"] = p.revision
	}
	return all
}

// newLayer returns a layer with the binary as its only file. The file is owned by root, so that a compromised controller cannot
// replace it, and its time is the epoch, so that the layer is reproducible.
func newLayer(binary []byte) (v1.Layer, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err := w.WriteHeader(&tar.Header{Name: entrypoint[1:], Mode: 0o755, Size: int64(len(binary))})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}
