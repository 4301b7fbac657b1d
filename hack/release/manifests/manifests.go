// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests renders the manifests in the directory artifacts.
package manifests

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlay is a kustomization with another image. Its arguments are a path and the image.
const overlay = `resources: [%q]
patches:
- target: {kind: Deployment, name: sample-controller}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %q}
`

// Render renders a kustomization in the directory artifacts with another image and, unless it is empty, another namespace.
func Render(artifacts, kustomization, image, namespace string) ([]byte, error) {
	// In memory, because an overlay refers to its base by a relative path.
	files := filesys.MakeFsInMemory()
	disk := os.DirFS(artifacts)
	err := fs.WalkDir(disk, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(disk, name)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join("/artifacts", name), content)
	})
	if err != nil {
		return nil, err
	}
	content := fmt.Sprintf(overlay, path.Join("../artifacts", kustomization), image)
	if namespace != "" {
		content += fmt.Sprintf("namespace: %q\n", namespace)
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", []byte(content)); err != nil {
		return nil, err
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/overlay")
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", filepath.Join(artifacts, kustomization), err)
	}
	return objects.AsYaml()
}
