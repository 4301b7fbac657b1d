// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pkg

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The package comment has a line for each folder here, and for no other.
func TestListOfPackages(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed, folders []string
	for _, line := range regexp.MustCompile(`(?m)^//   - (\w+): .+\?$`).FindAllSubmatch(comment, -1) {
		listed = append(listed, string(line[1]))
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, folders) {
		t.Errorf("doc.go lists %q, want the folders, %q", listed, folders)
	}
}
