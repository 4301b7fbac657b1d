// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/sample-controller/hack/learn/variants"
)

// entry is added to the main package of the controller, so that one module is both the controller and the API server of the lab. A browser
// has no signals: worker.js calls terminate instead. The linker's flag checklinkname allows it to call a function of os/signal.
const entry = `package main

import (
	"embed"
	"os"
	"syscall"
	"syscall/js"
	_ "unsafe" // for go:linkname

	"k8s.io/sample-controller/hack/learn/lab"
)

//go:embed *.go pkg/*/*.go artifacts/examples/crd.yaml
var sources embed.FS

//go:linkname process os/signal.process
func process(os.Signal)

func init() {
	if os.Args[0] == "api-server" {
		lab.Main(sources)
		os.Exit(0)
	}
	js.Global().Set("terminate", js.FuncOf(func(js.Value, []js.Value) any {
		process(syscall.SIGTERM)
		return nil
	}))
}
`

// builder builds the WebAssembly modules of the lab, its recordings and the files that the page needs beside its own.
type builder struct {
	root, dir string
	variants  []variants.Variant
	building  sync.Mutex // one module at a time
	recording sync.Mutex // one recording at a time
	recorded  map[string]bool
}

// newBuilder returns a builder for the project in root, whose output is in .build/lab.
func newBuilder(root string) (*builder, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all, err := variants.All()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".build/lab")
	return &builder{root: root, dir: dir, variants: all, recorded: map[string]bool{}}, os.MkdirAll(filepath.Join(dir, "variants"), 0o755)
}

// build builds everything but the variants.
func (b *builder) build(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "Building the lab. The first time, this takes some minutes.")
	module := filepath.Join(b.dir, "lab.wasm")
	if err := b.compile(ctx, module, nil); err != nil {
		return err
	}
	content, err := os.ReadFile(module)
	if err != nil {
		return err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	runtime, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "lib/wasm/wasm_exec.js"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "wasm_exec.js"), runtime, 0o644); err != nil {
		return err
	}
	all, err := json.Marshal(b.variants)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "variants.json"), all, 0o644); err != nil {
		return err
	}
	return writeVersion(b.dir, content, len(content), true)
}

// writeVersion says which module the page loads, how many bytes of it are loaded, and whether there is a server that builds variants.
func writeVersion(dir string, module []byte, compressed int, build bool) error {
	content := fmt.Sprintf(`{"sha256": "%x", "compressed": %d, "build": %t}`, sha256.Sum256(module), compressed, build)
	return os.WriteFile(filepath.Join(dir, "version.json"), []byte(content), 0o644)
}

// buildVariant builds the module of a variant, and returns its path. The error is fs.ErrNotExist if there is no such variant.
func (b *builder) buildVariant(ctx context.Context, id string) (string, error) {
	for _, v := range b.variants {
		if v.ID != id {
			continue
		}
		files, err := v.Files(b.root)
		if err != nil {
			return "", err
		}
		module := filepath.Join(b.dir, "variants", id+".wasm")
		return module, b.compile(ctx, module, files)
	}
	return "", fs.ErrNotExist
}

// compile builds a module with changed files, by their names in the project. What has not changed since is found in Go's cache.
func (b *builder) compile(ctx context.Context, module string, files map[string][]byte) error {
	b.building.Lock()
	defer b.building.Unlock()
	changed := filepath.Join(b.dir, "changed")
	if err := os.RemoveAll(changed); err != nil {
		return err
	}
	all := map[string][]byte{"lab.go": []byte(entry)}
	maps.Copy(all, files)
	overlay, err := variants.Overlay(b.root, changed, all)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w -checklinkname=0", "-overlay="+overlay, "-o", module, ".")
	build.Dir = b.root
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return nil
}
