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

// program is a compiled controller, and what it tells of its source.
type program struct {
	binary   []byte
	version  string    // Empty if unknown.
	revision string    // Empty if unknown.
	time     time.Time // The revision's; the epoch if unknown.
}

// compile builds the main package in the directory source, as a static binary that runs on every machine of the platform.
// Neither the shell's GOFLAGS nor the name of the directory change it. What go prints goes to progress.
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
		return program{}, fmt.Errorf("the controller in -source=%s cannot be built for %s; what go says is above: %w",
			source, platform, err)
	}
	return readProgram(path)
}

// readProgram reads a binary. Version and revision are those that the binary itself tells, so that the two cannot differ.
func readProgram(path string) (program, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("what go built is not a program; check -source: %w", err)
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
		p.revision += "+dirty" // As Go marks the version.
	}
	if stamp, ok := settings["vcs.time"]; ok {
		if p.time, err = time.Parse(time.RFC3339, stamp); err != nil {
			return program{}, err
		}
	}
	return p, nil
}

// knownPlatforms returns what Go can build for, as OS/ARCH.
func knownPlatforms() (map[string]bool, error) {
	list, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		return nil, fmt.Errorf("go cannot tell what it builds for; install Go, and check PATH: %w", err)
	}
	known := map[string]bool{}
	for platform := range strings.FieldsSeq(string(list)) {
		known[platform] = true
	}
	return known, nil
}
