// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

const (
	builtDir           = "kubernetes" // in BinDir: what Build has built, and the stages of kwok
	controlPlaneBinary = "controlplane"
	stampFile          = "stamp"
	kwokStagesFile     = "kwok-stages.yaml"

	kwokPackage = kwokModule + "/cmd/kwok"
)

// kwokStagePackages embed the stages without which kwok does not simulate Nodes and Pods.
var kwokStagePackages = []string{kwokModule + "/kustomize/stage/node/fast", kwokModule + "/kustomize/stage/pod/fast"}

// Build installs the control plane, kubectl and kwok in binDir. Binaries of a usable version that it finds in
// KUBEBUILDER_ASSETS or PATH are linked, and the others are built from the module in sourceDir. The first build takes minutes
// and reports its progress. Build does nothing if the binaries are up to date with the sources and the Go version. It can be
// interrupted: packages that were compiled are cached, and binDir never contains a partial binary. Concurrent builds into the
// same binDir wait for each other. If the environment variable KUBERNETES is another minor version than the default one, all
// binaries of that version are built, into a subdirectory of binDir.
func Build(ctx context.Context, sourceDir, binDir string, progress io.Writer) error {
	binDir, err := filepath.Abs(versionDir(binDir))
	if err != nil {
		return err
	}
	modFile, err := moduleFile(sourceDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return err
	}
	lock, err := lockFile(filepath.Join(binDir, ".cluster.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	b := &builder{sourceDir: sourceDir, modFile: modFile, binDir: binDir, lock: lock, progress: newProgress(progress)}
	defer b.progress.end()
	if err := b.build(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted (%w); the next build continues where this one stopped", context.Cause(ctx))
		}
		return fmt.Errorf("cannot build the local Kubernetes: %w", err)
	}
	return nil
}

// lockFile acquires an exclusive lock on the file, which is held until all duplicates of its descriptor are closed.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return file, nil
}

type builder struct {
	sourceDir, modFile, binDir string
	lock                       *os.File
	progress                   *progress
	hinted                     bool
}

// module is a module that binaries are built from.
type module struct{ version, date string }

func (b *builder) build(ctx context.Context) error {
	modules, err := b.modules(ctx)
	if err != nil {
		return err
	}
	want := map[string]version{}
	for path, m := range modules {
		if want[path], err = parseVersion(m.version); err != nil {
			return err
		}
	}
	var dirs []string
	if minorVersion() == defaultVersion { // otherwise, exactly this version is wanted
		dirs = searchDirs(b.binDir)
	}
	found := findInstalled(ctx, dirs, want)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, line := range found.uses() {
		b.progress.print("%s", line)
	}
	stamp, err := b.stamp(ctx)
	if err != nil {
		return err
	}
	if !b.upToDate(stamp, found.toBuild()) {
		if line := found.builds(); line != "" {
			b.progress.print("%s", line)
		}
		if err := b.buildMissing(ctx, found, modules[kubernetesModule], stamp); err != nil {
			return err
		}
	}
	return b.link(found.paths)
}

// modules returns the modules that binaries are built from, by path.
func (b *builder) modules(ctx context.Context) (map[string]module, error) {
	const format = `{{.Path}} {{.Version}} {{with .Time}}{{.Format "2006-01-02T15:04:05Z07:00"}}{{end}}`
	output, err := b.output(ctx, "list", "-modfile="+b.modFile, "-m", "-f", format, etcdModule, kubernetesModule, kwokModule)
	if err != nil {
		return nil, err
	}
	modules := map[string]module{}
	for line := range strings.Lines(output) {
		fields := append(strings.Fields(line), "")
		modules[fields[0]] = module{version: fields[1], date: fields[2]}
	}
	return modules, nil
}

// stamp returns a hash of everything that the binaries depend on.
func (b *builder) stamp(ctx context.Context) (string, error) {
	version, err := b.output(ctx, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOOS, runtime.GOARCH, version, buildFlags, withoutPlugins)
	var sources []string
	for _, pattern := range []string{b.modFile, strings.TrimSuffix(b.modFile, ".mod") + ".sum", "*.go"} {
		matches, err := filepath.Glob(filepath.Join(b.sourceDir, pattern))
		if err != nil {
			return "", err
		}
		sources = append(sources, matches...)
	}
	for _, path := range sources {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %x\n", filepath.Base(path), sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// upToDate reports whether the last build has the stamp and includes the names. The file has the stamp and the names that
// were built.
func (b *builder) upToDate(stamp string, names []string) bool {
	content, err := os.ReadFile(filepath.Join(b.binDir, builtDir, stampFile))
	if err != nil {
		return false
	}
	built := strings.Fields(string(content))
	if len(built) == 0 || built[0] != stamp {
		return false
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(b.binDir, builtPath(name))); err != nil || !slices.Contains(built[1:], name) {
			return false
		}
	}
	return true
}

// builtPath returns the path of a built binary, relative to binDir.
func builtPath(name string) string {
	if name == string(Kwok) {
		return filepath.Join(builtDir, name)
	}
	return filepath.Join(builtDir, controlPlaneBinary)
}

// checkBinaries returns an error with the command that builds the binaries if one of them is missing.
func checkBinaries(binDir string) error {
	paths := []string{filepath.Join(binDir, builtDir, kwokStagesFile)}
	for _, b := range binaries {
		paths = append(paths, filepath.Join(binDir, b.name))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the local Kubernetes is not built (there is no %s); build it with: make cluster", path)
		}
	}
	return nil
}

// buildMissing replaces the directory of built binaries by those that are not installed.
func (b *builder) buildMissing(ctx context.Context, found *installed, kubernetes module, stamp string) error {
	staging := filepath.Join(b.binDir, ".staging")
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	if err := os.MkdirAll(staging, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if packages, tags := buildTargets(found); len(packages) > 0 {
		if err := b.compile(ctx, packages, tags, ldflags(kubernetes), staging); err != nil {
			return err
		}
	}
	if err := b.writeKwokStages(ctx, filepath.Join(staging, kwokStagesFile)); err != nil {
		return err
	}
	content := strings.Join(append([]string{stamp}, found.toBuild()...), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(staging, stampFile), []byte(content), 0o644); err != nil {
		return err
	}
	built := filepath.Join(b.binDir, builtDir)
	if err := os.RemoveAll(built); err != nil {
		return err
	}
	return os.Rename(staging, built)
}

// buildTargets returns the packages to build, and the build tags that exclude installed components from the control plane's
// binary.
func buildTargets(found *installed) (packages, tags []string) {
	for _, b := range binaries {
		switch {
		case found.missing[b.name] == nil:
			tags = append(tags, "without_"+strings.ReplaceAll(b.name, "-", "_"))
		case b.name == string(Kwok):
			packages = append(packages, kwokPackage)
		case !slices.Contains(packages, "."):
			packages = append(packages, ".")
		}
	}
	return packages, tags
}

// writeKwokStages writes the stages, which kwok's module contains, to one file.
func (b *builder) writeKwokStages(ctx context.Context, path string) error {
	const format = `{{range .EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`
	files, err := b.output(ctx, slices.Concat([]string{"list", "-modfile=" + b.modFile, "-f", format}, kwokStagePackages)...)
	if err != nil {
		return err
	}
	var stages [][]byte
	for file := range strings.Lines(files) {
		stage, err := os.ReadFile(strings.TrimSpace(file))
		if err != nil {
			return err
		}
		stages = append(stages, stage)
	}
	return os.WriteFile(path, bytes.Join(stages, []byte("\n---\n")), 0o644)
}

// link makes binDir contain all binaries: those in paths, and the built ones.
func (b *builder) link(paths map[string]string) error {
	for _, binary := range binaries {
		target, ok := paths[binary.name]
		if !ok {
			target = builtPath(binary.name)
		}
		path := filepath.Join(b.binDir, binary.name)
		if current, err := os.Readlink(path); err == nil && current == target {
			continue
		}
		temporary := filepath.Join(b.binDir, ".link")
		if err := os.RemoveAll(temporary); err != nil {
			return err
		}
		if err := os.Symlink(target, temporary); err != nil {
			return err
		}
		if err := os.Rename(temporary, path); err != nil {
			return err
		}
	}
	return nil
}
