// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeArchive writes a tar file that is both an OCI image layout with all platforms, for containerd, kind, and Docker with the
// containerd image store, and a docker save archive (manifest.json), for Docker with its classic image store. The latter holds
// one platform per name and gets the first.
func writeArchive(path string, tag name.Tag, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp("", "sample-controller-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	images, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = images.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          fullName(tag),
		"org.opencontainers.image.ref.name": tag.TagStr(),
	}))
	if err != nil {
		return err
	}
	manifest, err := dockerManifest(tag, index)
	if err != nil {
		return err
	}
	if err := images.WriteFile("manifest.json", manifest, 0o644); err != nil {
		return err
	}
	return replaceFile(path, func(w io.Writer) error { return writeTar(w, os.DirFS(dir)) })
}

// dockerManifest returns the manifest.json for the first image of the index. It refers to the blobs of the image layout.
func dockerManifest(tag name.Tag, index v1.ImageIndex) ([]byte, error) {
	platforms, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	image, err := index.Image(platforms.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	descriptor := tarball.Descriptor{Config: blobPath(manifest.Config.Digest), RepoTags: []string{fullName(tag)}}
	for _, layer := range manifest.Layers {
		descriptor.Layers = append(descriptor.Layers, blobPath(layer.Digest))
	}
	return json.Marshal(tarball.Manifest{descriptor})
}

func blobPath(digest v1.Hash) string {
	return "blobs/" + digest.Algorithm + "/" + digest.Hex
}

// fullName returns the fully qualified name as Docker and containerd spell it: with docker.io, not index.docker.io.
func fullName(tag name.Tag) string {
	full := tag.Name()
	if hub, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + hub
	}
	return full
}

// writeTar archives the regular files reproducibly: in lexical order, without times and owners.
func writeTar(w io.Writer, files fs.FS) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// replaceFile replaces a file atomically.
func replaceFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial := path + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer os.Remove(partial) // Fails after the rename.
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
