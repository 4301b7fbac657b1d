// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// versionVariable is the variable with the minor version of Kubernetes.
	versionVariable = "KUBERNETES"

	// defaultVersion is the version in controlplane/go.mod. Each of the others has a file of its own there, for example 1.35.mod.
	defaultVersion = "1.37"
)

func minorVersion() string { return cmp.Or(os.Getenv(versionVariable), defaultVersion) }

// versionDir returns the directory for the binaries: binDir, or a subdirectory of it if it is not the default version.
func versionDir(binDir string) string {
	if version := minorVersion(); version != defaultVersion {
		return filepath.Join(binDir, version)
	}
	return binDir
}

// moduleFile returns the name of the file in sourceDir with the modules to build from.
func moduleFile(sourceDir string) (string, error) {
	version := minorVersion()
	if version == defaultVersion {
		return "go.mod", nil
	}
	others, err := filepath.Glob(filepath.Join(sourceDir, "*.*.mod"))
	if err != nil {
		return "", err
	}
	var known []string
	for _, file := range others {
		name := filepath.Base(file)
		if name == version+".mod" {
			return name, nil
		}
		known = append(known, strings.TrimSuffix(name, ".mod"))
	}
	return "", fmt.Errorf("%s is %q, must be one of %s", versionVariable, version, strings.Join(append(known, defaultVersion), ", "))
}
