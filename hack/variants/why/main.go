// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command why writes docs/why.md in a repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/sample-controller/hack/variants"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func write(root string) error {
	text, err := variants.Markdown(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs/why.md"), []byte(text), 0o644)
}
