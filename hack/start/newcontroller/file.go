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
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/util"
)

// file is a file of the repository.
type file struct {
	path    string // relative to the root of the repository
	mode    fs.FileMode
	content []byte
}

// onlyHere is what no new controller gets: paths, or beginnings of paths. A line that names one or links to it is left out, too.
var onlyHere = []string{
	// Learning, checking and starting.
	"hack/learn", "hack/check", ownDir, "docs/learn/tutorial", "docs/learn/exercises.md", "hack/simulation/foos/lessons.go",
	".github/workflows/pages.yaml",
	// What is only true of this project.
	"docs/learn/misconceptions.md", "docs/reference/classic.md", "docs/reference/controller-runtime.md", "docs/reference/performance.md",
	"docs/reference/simulation.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md",
	// It is about the plural of Foo, which the fake of client-go can guess.
	"pkg/apis/samplecontroller/v1alpha1/clientset_test.go",
	// Random walks in the local Kubernetes. Those in the simulation find more.
	"hack/e2e/random_walk_test.go", "hack/simulation/foos/actions",
	// Whether the simulated API server is like the real one.
	"hack/e2e/fidelity", "hack/e2e/testdata",
	// Older CRDs, of which a new controller has none, and restores of etcd.
	"hack/e2e/skew_test.go", "hack/e2e/restore_test.go", "hack/cluster/snapshot.go",
}

// ownDir is the directory of what starts controllers.
const ownDir = "hack/start"

// isOnlyHere reports whether no new controller gets a file. Besides onlyHere, these are the tests of the local Kubernetes and of the
// simulation, which are kept as they are.
func isOnlyHere(name string) bool {
	isTest := strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/")
	isTested := file{path: name}.isIn("hack/cluster", "hack/simulation/*", "hack/simulation/apiserver", "hack/simulation/testdata")
	return isTest && isTested || slices.ContainsFunc(onlyHere, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// readFiles returns the tracked files that a new controller gets, including generated ones, without what it does not get of them.
func readFiles(ctx context.Context, root string) ([]file, error) {
	if _, err := output(ctx, root, "git", "ls-files", "--error-unmatch", "Makefile"); err != nil {
		return nil, fmt.Errorf("make new copies what is committed: install git, and run it in a clone of this repository: %s",
			strings.Join(strings.Fields(err.Error()), " "))
	}
	files, err := trackedFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f file) bool { return isOnlyHere(f.path) })
	for i, f := range files {
		left, err := omit(f.path, string(f.content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		files[i].content = []byte(left)
	}
	return files, nil
}

// trackedFiles returns all files of a repository that git tracks.
func trackedFiles(ctx context.Context, root string) (files []file, err error) {
	list, err := output(ctx, root, "git", "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: name, mode: info.Mode().Perm(), content: content})
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

// generated reports whether hack/update-codegen.sh generates the file.
func (f file) generated() bool {
	return strings.HasPrefix(f.path, "pkg/generated/") || strings.HasPrefix(path.Base(f.path), "zz_generated.") ||
		path.Base(f.path) == "crd.yaml"
}

func (f file) isGo() bool { return path.Ext(f.path) == ".go" }

// renamed returns the file with the new names. It returns an error if an old name has no new one.
func (f file) renamed(n names) (file, error) {
	var err error
	old := f.path
	if f.path, err = n.rename(f.path, false); err != nil {
		return f, fmt.Errorf("%s: %w", old, err)
	}
	if path.Ext(f.path) == ".sum" {
		return f, nil // A checksum may contain anything.
	}
	text := string(f.content)
	switch path.Ext(f.path) {
	case ".go":
		if text, err = n.renameGo(text); err == nil {
			var formatted []byte
			formatted, err = format.Source([]byte(text))
			text = string(formatted)
		}
	case ".md":
		text, err = n.renameMarkdown(text)
	case ".diff":
		text, err = n.renameDiff(text)
	default:
		text, err = n.rename(text, false)
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", old, err)
	}
	f.content = []byte(text)
	return f, nil
}

// Markers of lines that a new controller does not get, and that do not name what it does not get.
const (
	omitBegin = "new: leave out"
	omitEnd   = "new: end"
)

// groupApproval is the annotation that is required for groups of the Kubernetes project only.
const groupApproval = "api-approved.kubernetes.io"

// omit returns the text of a file without what a new controller does not get.
func omit(name, text string) (string, error) {
	var left strings.Builder
	omitting, afterEmpty, afterOmitted := false, false, false
	for line := range strings.Lines(text) {
		begin, end, isEmpty := strings.Contains(line, omitBegin), strings.Contains(line, omitEnd), strings.TrimSpace(line) == ""
		switch {
		case begin || end:
			if omitting != end {
				return "", fmt.Errorf("begin and end do not alternate: %q", line)
			}
			omitting, afterOmitted = begin, true
		case strings.Contains(line, groupApproval) && oldNames.MatchString(line):
			return "", fmt.Errorf("the annotation must be in a line of its own: %q", line)
		case omitting || strings.Contains(line, groupApproval) || namesOnlyHere(name, line):
			afterOmitted = true
		case isEmpty && afterEmpty && afterOmitted: // One that was between others and what is left out.
		default:
			left.WriteString(line)
			afterEmpty, afterOmitted = isEmpty, false
		}
	}
	if omitting {
		return "", fmt.Errorf("begin without %q", omitEnd)
	}
	return left.String(), nil
}

var link = regexp.MustCompile(`\]\(([^)#:]+)`)

// namesOnlyHere reports whether a line of a file names what no new controller gets, or links to it.
func namesOnlyHere(name, line string) bool {
	for _, target := range link.FindAllStringSubmatch(line, -1) {
		if isOnlyHere(path.Join(path.Dir(name), target[1])) {
			return true
		}
	}
	return slices.ContainsFunc(onlyHere, func(prefix string) bool { return strings.Contains(line, prefix) })
}

var (
	// oldNames matches the old names, longest first. It also matches longer words that contain one, which have no new name and
	// are reported.
	oldNames = regexp.MustCompile(`k8s\.io/sample-controller|io\.k8s\.sample-controller|samplecontroller\.k8s\.io|sample-controller|sample_controller|` +
		`[Ss]amplecontroller|sample(v1alpha1|clientset|scheme)|sample[A-Z]|[a-z]*foo[a-z]*|Foo[a-z]*`)
	// traces matches what oldNames misses.
	traces = regexp.MustCompile(`(?i)[a-z]*(foo|sample)[a-z]*`)
	// articles matches the article before a kind, which in a comment may be at the end of the previous line, and in a link is one of a heading.
	articles = regexp.MustCompile("\\b([Aa])((?:\\s|//|#|-)+[`\"]?(?:Foo|foo))")
)

// rename replaces the old names in a text or, with the capitalization of Go, in an identifier. It returns an error if an old name
// has no new one.
func (n names) rename(text string, identifier bool) (string, error) {
	if identifier && n.taken[text] {
		text += takenSuffix
	}
	if article(n.kind) == "an" {
		text = articles.ReplaceAllString(text, "${1}n${2}")
	}
	var renamed strings.Builder
	end := 0
	for _, match := range append(oldNames.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		between, old := text[end:match[0]], text[match[0]:match[1]]
		replacement := n.of(old, identifier, text[match[1]:])
		if trace := traces.FindString(between); trace != "" || replacement == "" && old != "" {
			return "", fmt.Errorf("no replacement for %q: rephrase it, or add one to %s/newcontroller/file.go", trace+old, ownDir)
		}
		renamed.WriteString(between)
		renamed.WriteString(replacement)
		end = match[1]
	}
	return renamed.String(), nil
}

// of returns the new name for an old one, or "" if there is none. rest is the text after the old name.
func (n names) of(old string, identifier bool, rest string) string {
	// Part of an identifier such as fooInformer, in code or in a comment about it.
	camel := identifier || rest != "" && 'A' <= rest[0] && rest[0] <= 'Z'
	switch old {
	case "k8s.io/sample-controller":
		return n.module
	case "io.k8s.sample-controller": // The module in names of OpenAPI definitions, as the generators derive it.
		return util.ToRESTFriendlyName(n.module)
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
	case "foospec", "foostatus": // Files and packages.
		return n.singular + strings.TrimPrefix(old, "foo")
	}
	if prefixed, ok := strings.CutPrefix(old, "sample"); ok {
		return n.groupPackage + prefixed
	}
	return ""
}

// renameGo is rename for Go code, where identifiers are capitalized differently from strings and comments.
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

// renameMarkdown is rename for Markdown with blocks of Go code, of diffs, or with columns.
func (n names) renameMarkdown(text string) (string, error) {
	const fence = "```"
	var renamed []string
	for block := range strings.SplitSeq(text, fence) {
		rename := func(text string) (string, error) { return n.rename(text, false) }
		switch language, _, _ := strings.Cut(block, "\n"); language {
		case "go":
			rename = n.renameGo
		case "diff":
			rename = n.renameDiff
		case "console", "shell", "text", "yaml":
			rename = func(text string) (string, error) {
				renamed, err := n.rename(text, false)
				if err != nil {
					return "", err
				}
				return align(text, renamed), nil
			}
		}
		block, err := rename(block)
		if err != nil {
			return "", err
		}
		renamed = append(renamed, block)
	}
	return strings.Join(renamed, fence), nil
}

// renameDiff is rename for diffs of Go and other files. Go code is renamed line by line, because a hunk begins and ends anywhere.
func (n names) renameDiff(text string) (string, error) {
	var renamed strings.Builder
	isGo := false
	for line := range strings.Lines(text) {
		rename := func(text string) (string, error) { return n.rename(text, false) }
		header := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(header, "+++ "):
			isGo = strings.HasSuffix(header, ".go")
		case isGo && !strings.HasPrefix(header, "--- ") && !strings.HasPrefix(header, "@@"):
			rename = n.renameGo
		}
		line, err := rename(line)
		if err != nil {
			return "", err
		}
		renamed.WriteString(line)
	}
	return renamed.String(), nil
}
