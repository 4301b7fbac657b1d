// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// maxLoad is how much a browser may have to load for the lab, in bytes.
const maxLoad = 12 << 20

// writeSite writes everything to dir, for any static host: the lab, which cannot build variants there, and the documentation in docs.
func writeSite(ctx context.Context, b *builder, dir, repository string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.root, "hack/learn/lab/page"))); err != nil {
		return fmt.Errorf("%s must be empty: %w", dir, err)
	}
	if err := b.recordAll(ctx); err != nil {
		return err
	}
	names := []string{"wasm_exec.js", "variants.json", recordingFile("")}
	for _, v := range b.variants {
		names = append(names, recordingFile(v.ID))
	}
	if err := os.MkdirAll(filepath.Join(dir, "variants"), 0o755); err != nil {
		return err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := b.compress(dir); err != nil {
		return err
	}
	if err := checkLoad(dir); err != nil {
		return err
	}
	docs := filepath.Join(dir, "docs")
	if err := writePages(b.root, docs, repository); err != nil {
		return err
	}
	return mermaid.add(b.root, docs)
}

// compress writes the module with zstd, with which it is a third smaller than with gzip, and version.json.
func (b *builder) compress(dir string) error {
	module, err := os.ReadFile(filepath.Join(b.dir, "lab.wasm"))
	if err != nil {
		return err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return err
	}
	compressed := encoder.EncodeAll(module, nil)
	if err := writeVersion(dir, module, len(compressed), false); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "lab.wasm.zst"), compressed, 0o644); err != nil {
		return err
	}
	return fzstd.add(b.root, dir)
}

// checkLoad prints how much the first visit loads. More than maxLoad is an error.
func checkLoad(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, entry := range entries { // The recordings are loaded when they are played, and of the documentation only the terms.
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && path.Ext(info.Name()) != ".jsonl" {
			total += info.Size()
		}
	}
	fmt.Fprintf(os.Stderr, "The first visit loads %.1f MiB.\n", float64(total)/(1<<20))
	if total > maxLoad {
		return fmt.Errorf("the first visit loads %d bytes, which is more than %d", total, maxLoad)
	}
	return nil
}

//go:embed docs.css
var stylesheet []byte

var pageTemplate = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{{.Top}}docs.css">
</head>
<body>
<nav><a href="{{.Top}}../">lab</a> <a href="{{.Top}}index.html">documentation</a></nav>
<main>
{{.Content}}</main>
<script src="{{.Top}}diagrams.js"></script>
</body>
</html>
`))

// document is a page of the documentation.
type document struct {
	source string // in the project
	target string // in docs
}

// documents returns the pages of the documentation: the README, which is the first one, and docs.
func documents(root string) ([]document, error) {
	all := []document{{"README.md", "index.html"}}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			all = append(all, document{name, strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md") + ".html"})
		}
		return err
	})
	return all, err
}

// writePages writes the documentation as HTML. What is not part of it is linked in the repository at a URL.
func writePages(root, dir, repository string) error {
	all, err := documents(root)
	if err != nil {
		return err
	}
	targets := map[string]string{}
	for _, d := range all {
		targets[d.source] = d.target
	}
	for _, d := range all {
		content, err := os.ReadFile(filepath.Join(root, d.source))
		if err != nil {
			return err
		}
		page, err := d.render(content, func(destination string) string { return d.link(destination, targets, repository) })
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(d.target)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.target), page, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "diagrams.js"), []byte(diagrams), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "docs.css"), stylesheet, 0o644)
}

// render returns a document as HTML, with links changed.
func (d document) render(content []byte, link func(destination string) string) ([]byte, error) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe())) // The documents are our own.
	tree := markdown.Parser().Parse(text.NewReader(content))
	title := ""
	err := ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := node.(type) {
		case *ast.Link:
			if entering {
				node.Destination = []byte(link(string(node.Destination)))
			}
		case *ast.Heading:
			if entering && title == "" {
				title = string(node.Lines().Value(content))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var body, page bytes.Buffer
	if err := markdown.Renderer().Render(&body, content, tree); err != nil {
		return nil, err
	}
	err = pageTemplate.Execute(&page, map[string]any{
		"Title": title, "Content": template.HTML(body.String()), "Top": strings.Repeat("../", strings.Count(d.target, "/")),
	})
	return page.Bytes(), err
}

// link returns the destination of a link in the document. It is relative if it is part of the documentation.
func (d document) link(destination string, targets map[string]string, repository string) string {
	name, anchor, hasAnchor := strings.Cut(destination, "#")
	if name == "" || strings.Contains(name, ":") {
		return destination
	}
	if hasAnchor {
		anchor = "#" + anchor
	}
	name = path.Join(path.Dir(d.source), name)
	target, ok := targets[name]
	if !ok {
		return repository + "/blob/main/" + name + anchor
	}
	relative, err := filepath.Rel(path.Dir(d.target), target)
	if err != nil {
		return destination
	}
	return filepath.ToSlash(relative) + anchor
}

// diagrams loads mermaid in a page with diagrams, and draws them. Where the lab is served from a clone, without mermaid, they stay as text.
const diagrams = `if (document.querySelector("code.language-mermaid")) {
  const script = document.createElement("script");
  script.src = new URL("mermaid.min.js", document.currentScript.src);
  script.onload = () => {
    mermaid.initialize({ startOnLoad: false, theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "neutral" });
    mermaid.run({ querySelector: "code.language-mermaid" });
  };
  document.head.append(script);
}
`

// library is a script of a package that npm downloads.
type library struct {
	name, checksum string // of the package, with its version, and SHA-256
	file, target   string // in the package, and in the site
}

var (
	// mermaid draws diagrams, and fzstd decompresses the module.
	mermaid = library{"mermaid@12.3.0", "be0684e8d20bfc874df12c0f04927a5c482f57f2200eec54cca52a4583fd4040", "package/dist/mermaid.min.js", "mermaid.min.js"}
	fzstd   = library{"fzstd@0.1.1", "5ed2ee2d3439067be211d0093292c708a831045372342c897437e5a4997c45c5", "package/esm/index.mjs", "fzstd.js"}
)

// add adds the script to dir.
func (l library) add(root, dir string) error {
	packages := filepath.Join(root, ".build/lab/npm")
	if err := os.MkdirAll(packages, 0o755); err != nil {
		return err
	}
	pack := exec.Command("npm", "pack", "--silent", l.name)
	pack.Dir = packages
	name, err := pack.Output()
	if err != nil {
		return fmt.Errorf("npm pack %s: %w; install npm", l.name, err)
	}
	archive := filepath.Join(packages, strings.TrimSpace(string(name)))
	content, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	if checksum := fmt.Sprintf("%x", sha256.Sum256(content)); checksum != l.checksum {
		return fmt.Errorf("%s has the checksum %s, want %s", l.name, checksum, l.checksum)
	}
	script, err := exec.Command("tar", "-xzOf", archive, l.file).Output()
	if err != nil {
		return fmt.Errorf("tar -xzOf %s %s: %w", archive, l.file, err)
	}
	return os.WriteFile(filepath.Join(dir, l.target), script, 0o644)
}
