// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/sample-controller/hack/learn/variants"
	"k8s.io/sample-controller/hack/learn/variants/diff"
)

// Exercises are the documents with exercises. Each list starts with the project as it is.
var Exercises = [][]string{variants.Features, {"docs/learn/replace-the-deployment.md"}}

// ApplyExercises follows the exercises of documents in a repository: it applies the diffs, deletes functions, and runs the commands that
// create or remove files. It leaves make generate to the caller, who needs it only once.
func ApplyExercises(dir string, paths []string) error {
	for _, path := range paths {
		d, err := readExercises(dir, path)
		if err != nil {
			return err
		}
		for _, b := range d.blocks {
			switch b.language {
			case "diff":
				err = b.apply(dir)
			case "functions":
				err = b.deleteFunctions(dir)
			case "shell":
				err = b.changeFiles(dir)
			}
			if err != nil {
				return fmt.Errorf("%s:%d: %w", d.path, b.line, err)
			}
		}
	}
	return nil
}

// readExercises reads a document, with the diffs that it links.
func readExercises(root, path string) (*document, error) {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	text, err := diff.Include(filepath.Join(root, filepath.Dir(path)), string(content))
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

// changeFiles runs the commands mkdir, cp and rm of a block.
func (b block) changeFiles(dir string) error {
	for line := range strings.Lines(b.text) {
		for _, words := range split(line) {
			if !slices.Contains([]string{"mkdir", "cp", "rm"}, words[0]) {
				continue
			}
			command := exec.Command(words[0], words[1:]...)
			command.Dir = dir
			if output, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w\n%s", words, err, output)
			}
		}
	}
	return nil
}

// apply applies a diff.
func (b block) apply(dir string) error { return diff.Apply(dir, b.text) }

// deleteFunctions deletes functions and methods with their comments: a line of the block has a file, a colon, and their names.
func (b block) deleteFunctions(dir string) error {
	for line := range strings.Lines(b.text) {
		name, names, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for function := range strings.SplitSeq(names, ", ") {
			if err := deleteFunction(filepath.Join(dir, name), function); err != nil {
				return err
			}
		}
	}
	return nil
}

func deleteFunction(path, name string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, content, parser.ParseComments)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(parsed.Decls, func(decl ast.Decl) bool {
		function, ok := decl.(*ast.FuncDecl)
		return ok && function.Name.Name == name
	})
	if i < 0 {
		return fmt.Errorf("%s has no function %s", path, name)
	}
	begin := parsed.Decls[i].Pos()
	if doc := parsed.Decls[i].(*ast.FuncDecl).Doc; doc != nil {
		begin = doc.Pos()
	}
	before, after := content[:files.Position(begin).Offset], content[files.Position(parsed.Decls[i].End()).Offset:]
	content, err = format.Source(slices.Concat(bytes.TrimSpace(before), []byte("\n\n"), bytes.TrimSpace(after), []byte("\n")))
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
