// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reference matches a reference to a declaration in a Go file, such as `controller.go: syncHandler`, several of them included.
var reference = regexp.MustCompile("`([\\w./-]+\\.go): ([\\w, ]+)`")

// checkReferences returns the references to a Go declaration that does not exist. directories has those of modules whose files
// are referred to with a prefix, such as client-go/; all other files are relative to root.
func checkReferences(root string, directories map[string]string, documents []*document) (problems []string) {
	for _, d := range documents {
		for i, line := range d.prose {
			for _, match := range reference.FindAllStringSubmatch(line, -1) {
				file := filepath.Join(root, match[1])
				for prefix, directory := range directories {
					if rest, ok := strings.CutPrefix(match[1], prefix); ok {
						file = filepath.Join(directory, rest)
					}
				}
				for name := range strings.SplitSeq(match[2], ", ") {
					if err := checkDeclared(file, name); err != nil {
						problems = append(problems, fmt.Sprintf("%s:%d: %s: %v", d.path, i+1, match[0], err))
					}
				}
			}
		}
	}
	return problems
}

// checkDeclared returns an error if a Go file does not declare a function, method, type, field, constant or variable of that name.
func checkDeclared(file, name string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("no such file")
	}
	declaration := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |const |var |\t)` + name + `\b`)
	if !declaration.Match(content) {
		return fmt.Errorf("%s is not declared", name)
	}
	return nil
}
