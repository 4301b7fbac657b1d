// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// file is a file of the repository.
type file struct {
	path    string // from the repository's root
	mode    fs.FileMode
	content []byte
}

const (
	// ownFolder is the one of this command, and benchFolder that of a benchmark with programs that serve Foos and nothing else. A
	// new controller has no use for them.
	ownFolder   = "hack/newcontroller"
	benchFolder = "hack/bench"
)

// readFiles returns the files that git tracks and that a new controller gets, generated ones included.
func readFiles(ctx context.Context, root string) ([]file, error) {
	list, err := output(ctx, root, "git", "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	var files []file
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		if strings.HasPrefix(name, ownFolder+"/") || strings.HasPrefix(name, benchFolder+"/") {
			continue
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(content, []byte(leftOutFile)) {
			files = append(files, file{path: name, mode: info.Mode().Perm(), content: content})
		}
	}
	return files, nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, stderr.Bytes())
	}
	return stdout.String(), nil
}

// generated reports whether hack/update-codegen.sh makes the file.
func (f file) generated() bool {
	return strings.HasPrefix(f.path, "pkg/generated/") || strings.HasPrefix(path.Base(f.path), "zz_generated.") ||
		f.path == "artifacts/examples/crd.yaml"
}

func (f file) isGo() bool { return path.Ext(f.path) == ".go" }

// renamed returns the file with the new names. An error tells of an old name that has no new one.
func (f file) renamed(n names) (file, error) {
	var err error
	old := f.path
	if f.path, err = n.rename(f.path, false); err != nil {
		return f, fmt.Errorf("%s: %w", old, err)
	}
	if path.Base(f.path) == "go.sum" {
		return f, nil // Checksums have no names.
	}
	text, err := leaveOut(string(f.content))
	if err != nil {
		return f, fmt.Errorf("%s: %w", old, err)
	}
	switch path.Ext(f.path) {
	case ".go":
		if text, err = n.renameGo(text); err == nil {
			var formatted []byte
			formatted, err = format.Source([]byte(text))
			text = string(formatted)
		}
	case ".md":
		text, err = n.renameMarkdown(text)
	default:
		text, err = n.rename(text, false)
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", old, err)
	}
	f.content = []byte(text)
	return f, nil
}

// What a new controller does not get is a file that says the first of these, what stands between lines that say the other
// two, or a line with one of the texts below.
const (
	leftOutFile  = "new: leave out file"
	leftOutBegin = "new: leave out"
	leftOutEnd   = "new: end"
)

var leftOutLines = []string{
	ownFolder, benchFolder,
	"api-approved.kubernetes.io", // Only groups of the Kubernetes project need it.
}

func leaveOut(text string) (string, error) {
	var kept strings.Builder
	leavingOut := false
lines:
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, leftOutBegin) != strings.Contains(line, leftOutEnd):
			if leavingOut == strings.Contains(line, leftOutBegin) {
				return "", fmt.Errorf("%q and %q do not alternate", leftOutBegin, leftOutEnd)
			}
			leavingOut = !leavingOut
			continue
		case leavingOut:
			continue
		}
		for _, leftOut := range leftOutLines {
			if strings.Contains(line, leftOut) {
				continue lines
			}
		}
		kept.WriteString(line)
	}
	if leavingOut {
		return "", fmt.Errorf("there is no %q", leftOutEnd)
	}
	return kept.String(), nil
}

var (
	// oldNames finds the old names in the order of this list, and more of a word than is one, so that such words are noticed.
	oldNames = regexp.MustCompile(`k8s\.io/sample-controller|samplecontroller\.k8s\.io|sample-controller|sample_controller|` +
		`[Ss]amplecontroller|sample(v1alpha1|clientset|scheme)|sample[A-Z]|[a-z]*foo[a-z]*|Foo[a-z]*`)
	// traces finds what is left of them.
	traces = regexp.MustCompile(`(?i)[a-z]*(foo|sample)[a-z]*`)
	// articles finds the article before a kind, which may stand in the line before in a comment.
	articles = regexp.MustCompile("\\b([Aa])((?:\\s|//|#)+[`\"]?(?:Foo|foo))")
)

// rename puts the new names into a text or, with other capitals, into a Go identifier. An error tells of an old name that
// has no new one.
func (n names) rename(text string, identifier bool) (string, error) {
	if article(n.kind) == "an" {
		text = articles.ReplaceAllString(text, "${1}n${2}")
	}
	var renamed strings.Builder
	end := 0
	for _, match := range append(oldNames.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		between, old := text[end:match[0]], text[match[0]:match[1]]
		replacement := n.of(old, identifier, text[match[1]:])
		if trace := traces.FindString(between); trace != "" || replacement == "" && old != "" {
			return "", fmt.Errorf("there is no new name for %q; rephrase it there, or teach %s/file.go to rename it", trace+old, ownFolder)
		}
		renamed.WriteString(between)
		renamed.WriteString(replacement)
		end = match[1]
	}
	return renamed.String(), nil
}

// of returns the new name for an old one that is followed by the rest of a text, and "" if there is none.
func (n names) of(old string, identifier bool, rest string) string {
	// Part of an identifier like fooInformer, in code or in a text that speaks of it.
	camel := identifier || rest != "" && 'A' <= rest[0] && rest[0] <= 'Z'
	switch old {
	case "k8s.io/sample-controller":
		return n.module
	case "samplecontroller.k8s.io":
		return n.group
	case "sample-controller":
		return n.name
	case "sample_controller":
		return strings.ReplaceAll(n.name, "-", "_")
	case "Samplecontroller":
		return strings.ToUpper(n.groupPackage[:1]) + n.groupPackage[1:]
	case "samplecontroller":
		return n.groupPackage
	case "Foo":
		return n.kind
	case "Foos":
		return n.kinds
	case "foo":
		if camel {
			return n.variable
		}
		return n.singular
	case "foos":
		if camel {
			return n.variables
		}
		return n.plural
	case "foospec", "foostatus": // files and packages
		return n.singular + strings.TrimPrefix(old, "foo")
	}
	if prefixed, ok := strings.CutPrefix(old, "sample"); ok {
		return n.groupPackage + prefixed
	}
	return ""
}

// renameGo is rename for a Go file, where identifiers have other capitals than strings and comments.
func (n names) renameGo(text string) (string, error) {
	var errs scanner.ErrorList
	var s scanner.Scanner
	files := token.NewFileSet()
	source := files.AddFile("", -1, len(text))
	s.Init(source, []byte(text), errs.Add, scanner.ScanComments)
	var renamed strings.Builder
	end := 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			renamed.WriteString(text[end:])
			return renamed.String(), errs.Err()
		}
		if tok != token.IDENT && tok != token.STRING && tok != token.COMMENT {
			continue
		}
		begin := source.Offset(pos)
		name, err := n.rename(literal, tok == token.IDENT)
		if err != nil {
			return "", errors.Join(err, errs.Err())
		}
		renamed.WriteString(text[end:begin])
		renamed.WriteString(name)
		end = begin + len(literal)
	}
}

// renameMarkdown is rename for a text with blocks of Go code in it.
func (n names) renameMarkdown(text string) (string, error) {
	const fence = "```"
	var renamed []string
	for block := range strings.SplitSeq(text, fence) {
		rename := func(text string) (string, error) { return n.rename(text, false) }
		if strings.HasPrefix(block, "go\n") {
			rename = n.renameGo
		}
		block, err := rename(block)
		if err != nil {
			return "", err
		}
		renamed = append(renamed, block)
	}
	return strings.Join(renamed, fence), nil
}
