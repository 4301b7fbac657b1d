// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// platforms are those that there are binaries for.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

// binary is a compiled controller.
type binary struct {
	platform
	path string
	info *buildinfo.BuildInfo
}

// compileAll compiles the controller for all platforms.
func (r *release) compileAll(ctx context.Context) ([]binary, error) {
	var binaries []binary
	for _, p := range platforms {
		b, err := r.compile(ctx, p)
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
}

// compile compiles the controller with the same settings as in the image, so that the binaries are the same.
func (r *release) compile(ctx context.Context, p platform) (binary, error) {
	fmt.Fprintf(r.progress, "Compiling for %s/%s\n", p.os, p.arch)
	b := binary{platform: p, path: filepath.Join(r.work, p.os+"-"+p.arch)}
	err := r.goCommand(ctx, r.dir, []string{"GOOS=" + p.os, "GOARCH=" + p.arch},
		"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path, ".")
	if err != nil {
		return b, fmt.Errorf("compiling for %s/%s failed: %w", p.os, p.arch, err)
	}
	if b.info, err = buildinfo.ReadFile(b.path); err != nil {
		return b, err
	}
	if stamped := b.info.Main.Version; stamped != r.version {
		return b, fmt.Errorf("VERSION=%s: the go command stamps %s into the binaries", r.version, stamped)
	}
	return b, nil
}

// goCommand runs a go command for the baseline CPU, which does not depend on GOFLAGS or a workspace. Its output is shown as progress.
func (r *release) goCommand(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0"}, env)
	cmd.Stdout, cmd.Stderr = r.progress, r.progress
	if err := cmd.Run(); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return err
	}
	return nil
}

// writeBinary writes the archive of a binary: a zip file for Windows, as is usual there, and a compressed tar file for the others.
func (r *release) writeBinary(b binary) error {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.dir, "LICENSE"))
	if err != nil {
		return err
	}
	dir := r.fileName(b.os + "-" + b.arch)
	executable, suffix, write := name, ".tar.gz", tarGz
	if b.os == "windows" {
		executable, suffix, write = name+".exe", ".zip", zipped
	}
	archive, err := write([]archived{
		{path: dir + "/LICENSE", mode: 0o644, content: license},
		{path: dir + "/" + executable, mode: 0o755, content: content},
	}, r.time)
	if err != nil {
		return err
	}
	return r.writeFile(dir+suffix, archive)
}
