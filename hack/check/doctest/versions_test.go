// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// controlPlane has a module file for each version of the local Kubernetes. go.mod is the one of the default version.
const controlPlane = root + "/hack/cluster/controlplane"

var (
	requiredKubernetes = regexp.MustCompile(`\tk8s\.io/kubernetes v((1\.\d+)\.\d+)`)
	testedKubernetes   = regexp.MustCompile(`(?m)^\| (1\.\d+) \| (1\.\d+\.\d+): `)
	kubernetesInCI     = regexp.MustCompile(`- (\S+) KUBERNETES=(1\.\d+)`)
)

// TestKubernetesVersions compares docs/reference/compatibility.md and the matrix of CI with the module files.
func TestKubernetesVersions(t *testing.T) {
	files, err := filepath.Glob(controlPlane + "/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	var required, older []string
	for _, file := range files {
		match := requiredKubernetes.FindStringSubmatch(read(t, file))
		if match == nil {
			t.Fatalf("%s does not require Kubernetes", file)
		}
		required = append(required, match[2]+" "+match[1])
		if filepath.Base(file) != "go.mod" {
			older = append(older, match[2])
		}
	}
	slices.Sort(required)
	slices.Sort(older)

	var tested []string
	for _, match := range testedKubernetes.FindAllStringSubmatch(read(t, root+"/docs/reference/compatibility.md"), -1) {
		tested = append(tested, match[1]+" "+match[2])
	}
	slices.Sort(tested)
	if !slices.Equal(tested, required) {
		t.Errorf("docs/reference/compatibility.md has the versions %q, and %s has %q", tested, controlPlane, required)
	}

	inCI := map[string][]string{}
	for _, match := range kubernetesInCI.FindAllStringSubmatch(read(t, root+"/.github/workflows/ci.yaml"), -1) {
		inCI[match[1]] = append(inCI[match[1]], match[2])
	}
	if len(inCI) == 0 {
		t.Error("CI tests no older version")
	}
	for target, versions := range inCI {
		slices.Sort(versions)
		if !slices.Equal(versions, older) {
			t.Errorf("CI runs make %s with the versions %q, and %s has %q", target, versions, controlPlane, older)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestSharedModules requires the same versions of what is in both the controller and the control plane: otherwise, the first build
// compiles it, and all that imports it, twice.
func TestSharedModules(t *testing.T) {
	inController := modules(t, root, ".")
	for path, version := range modules(t, controlPlane, ".", "sigs.k8s.io/kwok/cmd/kwok") {
		if want, ok := inController[path]; ok && version != want {
			t.Errorf("%s is %s in the controller's go.mod and %s in the control plane's: set both to the newer with go get", path, want, version)
		}
	}
}

// modules returns the versions of the modules that packages are built from, by path.
func modules(t *testing.T, dir string, packages ...string) map[string]string {
	t.Helper()
	const format = "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"
	versions := map[string]string{}
	for line := range strings.Lines(output(t, dir, "go", append([]string{"list", "-deps", "-f", format}, packages...)...)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			versions[path] = version
		}
	}
	return versions
}
