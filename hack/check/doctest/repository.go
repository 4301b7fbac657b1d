// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// CheckLinks returns the broken links in the Markdown files of the repository in dir.
func CheckLinks(dir string) ([]string, error) {
	list, err := exec.Command("git", "-C", dir, "ls-files", "-z", "--", "*.md").Output()
	if err != nil {
		return nil, err
	}
	var documents []*document
	for path := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		d, err := readDocument(dir, path)
		if err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
	return checkLinks(filepath.Clean(dir), documents), nil
}
