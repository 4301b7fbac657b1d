// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is the compiled controller with its build information.
type program struct {
	binary   []byte
	version  string    // Empty if unknown.
	revision string    // Empty if unknown.
	time     time.Time // The commit time; the epoch if unknown.
}

// compile builds the main package in the directory source as a static binary for the platform's baseline CPU. The build is
// reproducible: it does not depend on GOFLAGS, a workspace or the name of the directory. progress gets the output of go build.
func compile(ctx context.Context, source string, platform v1.Platform, buildVCS string, progress io.Writer) (program, error) {
	dir, err := os.MkdirTemp("", "sample-controller-image-")
	if err != nil {
		return program{}, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sample-controller")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs="+buildVCS, "-ldflags=-s -w", "-o", path, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "CGO_ENABLED=0",
		"GOWORK=off", "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); ctx.Err() != nil {
		return program{}, context.Cause(ctx)
	} else if err != nil {
		return program{}, fmt.Errorf("building -source=%s for %s failed, see the output of go build above: %w", source, platform, err)
	}
	return readProgram(path)
}

// readProgram reads a binary with its build information, so that the image has the same version and revision as the binary.
func readProgram(path string) (program, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("-source is not a main package: %w", err)
	}
	p := program{binary: binary, time: time.Unix(0, 0).UTC()}
	if info.Main.Version != "(devel)" {
		p.version = info.Main.Version
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	p.revision = settings["vcs.revision"]
	if settings["vcs.modified"] == "true" {
		p.revision += "+dirty" // The suffix that Go gives to the version.
	}
	if stamp, ok := settings["vcs.time"]; ok {
		if p.time, err = time.Parse(time.RFC3339, stamp); err != nil {
			return program{}, err
		}
	}
	return p, nil
}

// knownPlatforms returns the platforms that Go can build for, as OS/ARCH.
func knownPlatforms() (map[string]bool, error) {
	list, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the platforms of Go, which must be in PATH: %w", err)
	}
	known := map[string]bool{}
	for platform := range strings.FieldsSeq(string(list)) {
		known[platform] = true
	}
	return known, nil
}
