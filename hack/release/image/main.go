// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the controller's multi-platform container image as an archive. It needs Go, and git for the version, but
// no Docker, base image or network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const intro = `Usage: image [flags]

Builds the controller's multi-platform container image as an archive for docker load, kind load image-archive
and ctr images import. Builds are reproducible.

`

const outro = `Wrote %s to %s
Digest: %s

Load it with one of:
  docker load -i %[2]s
  kind load image-archive %[2]s
  ctr -n k8s.io images import %[2]s
`

func main() {
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v; see -h for all flags\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run builds the image, writes the archive, and pushes the image if requested. It prints the result to out.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	index, err := buildIndex(ctx, o, progress)
	if err != nil {
		return err
	}
	if err := writeArchive(o.output, o.tag, index); err != nil {
		return fmt.Errorf("writing the archive to -output=%s: %w", o.output, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, outro, o.tag, o.output, digest)
	if !o.push {
		return nil
	}
	err = remote.WriteIndex(o.tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("pushing -image=%s (docker login %s may be needed): %w", o.tag, o.tag.Registry, err)
	}
	fmt.Fprintf(out, "\nPushed %s@%s\n", fullName(o.tag), digest)
	return nil
}

type options struct {
	source    string
	output    string
	tag       name.Tag
	platforms []v1.Platform
	buildVCS  string
	push      bool
}

// parseFlags parses the command line. For -h it prints the help to out and returns flag.ErrHelp.
func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error.
	flags.StringVar(&o.source, "source", ".", "`directory` of the controller's main package")
	flags.StringVar(&o.output, "output", ".build/sample-controller-image.tar", "`path` of the archive")
	image := flags.String("image", "sample-controller:latest", "`NAME:TAG` of the image")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64",
		"comma-separated `list` of OS/ARCH; Docker without the containerd image store loads the first one only")
	flags.StringVar(&o.buildVCS, "buildvcs", "auto",
		"-buildvcs flag of go build; with false, or without git, binary and image have no version and revision")
	flags.BoolVar(&o.push, "push", false, "also push the image to the registry in -image, with the credentials of docker login")

	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, intro)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.output == "" {
		return o, errors.New("-output must not be empty")
	}
	if !slices.Contains([]string{"auto", "true", "false"}, o.buildVCS) {
		return o, fmt.Errorf("-buildvcs must be auto, true or false, not %q", o.buildVCS)
	}
	var err error
	if o.tag, err = name.NewTag(*image); err != nil {
		return o, fmt.Errorf("-image must be NAME:TAG, not %q: %w", *image, err)
	}
	o.platforms, err = parsePlatforms(*platforms)
	return o, err
}

// parsePlatforms parses a comma-separated list of platforms. Only Linux can run an image without a base image.
func parsePlatforms(list string) ([]v1.Platform, error) {
	known, err := knownPlatforms()
	if err != nil {
		return nil, err
	}
	var platforms []v1.Platform
	seen := map[string]bool{}
	for platform := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(platform, "/")
		switch {
		case system != "linux" || !known[platform]:
			return nil, fmt.Errorf("-platforms: %q is not a Linux platform that Go supports, such as linux/amd64", platform)
		case seen[platform]:
			return nil, fmt.Errorf("-platforms: duplicate %s", platform)
		}
		seen[platform] = true
		platforms = append(platforms, v1.Platform{OS: system, Architecture: arch})
	}
	return platforms, nil
}
