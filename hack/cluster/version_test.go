// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each version is the one that its file requires, and has a directory of its own.
func TestVersions(t *testing.T) {
	files, err := filepath.Glob("controlplane/*.mod")
	if err != nil || len(files) == 0 {
		t.Fatalf("no module files (%v)", err)
	}
	var versions []string
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(`\tk8s.io/kubernetes v(1\.\d+)\.`).FindSubmatch(content)
		if match == nil {
			t.Errorf("%s does not require Kubernetes", path)
			continue
		}
		version := string(match[1])
		versions = append(versions, version)
		t.Setenv(versionVariable, version)
		if got, err := moduleFile("controlplane"); got != filepath.Base(path) {
			t.Errorf("moduleFile with %s=%s = %q, %v, want %s", versionVariable, version, got, err, path)
		}
		want := filepath.Join("bin", version)
		if filepath.Base(path) == "go.mod" {
			want = "bin"
		}
		if got := versionDir("bin"); got != want {
			t.Errorf("versionDir with %s=%s = %s, want %s", versionVariable, version, got, want)
		}
	}

	t.Setenv(versionVariable, "1.20")
	want := `KUBERNETES is "1.20", must be one of ` + strings.Join(versions, ", ")
	if file, err := moduleFile("controlplane"); err == nil || err.Error() != want {
		t.Errorf("moduleFile with an unknown version = %q, %v, want the error %s", file, err, want)
	}
}
