// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"k8s.io/sample-controller/hack/release/manifests"
)

// writeManifests writes install.yaml, everything that kubectl apply needs to install the controller for all namespaces.
func (r *release) writeManifests(image string) error {
	objects, err := manifests.Render(filepath.Join(r.dir, "artifacts"), ".", image, "")
	if err != nil {
		return err
	}
	header := fmt.Sprintf("# %s %s, commit %s\n", name, r.version, r.commit)
	return r.writeFile("install.yaml", append([]byte(header), objects...))
}
