// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the controller and packs it into an archive with a multi-platform container image. It needs Go, and
// git for the version; no Docker, no base image, no network.
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

Builds the controller and packs it into one archive with an image for all platforms, which docker load,
kind load image-archive and ctr images import understand. The same source gives the same bytes.

`

const outro = `%s is in %s
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
		fmt.Fprintf(os.Stderr, "Error: %v; -h explains all flags\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run builds the image, writes its archive, pushes it if that is wanted, and tells out what came of it.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	index, err := buildIndex(ctx, o, progress)
	if err != nil {
		return err
	}
	if err := writeArchive(o.output, o.tag, index); err != nil {
		return fmt.Errorf("the archive cannot be written; check -output: %w", err)
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
		return fmt.Errorf("the image cannot be pushed; check -image, and that you are logged in to %s: %w", o.tag.Registry, err)
	}
	fmt.Fprintf(out, "\nPushed %s@%s\n", fullName(o.tag), digest)
	return nil
}

// options are the values of the flags.
type options struct {
	source    string
	output    string
	tag       name.Tag
	platforms []v1.Platform
	buildVCS  string
	push      bool
}

// parseFlags returns the options of the command line. If that asks for help, it is written to out and the error is
// flag.ErrHelp. Any other error is about a flag's name or value.
func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors.
	flags.StringVar(&o.source, "source", ".", "`directory` of the controller's main package")
	flags.StringVar(&o.output, "output", ".build/sample-controller-image.tar", "`path` of the archive")
	image := flags.String("image", "sample-controller:latest", "`NAME:TAG` that the image has once it is loaded")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64",
		"comma-separated `list` of OS/ARCH; a Docker that does not use containerd's image store loads the first")
	flags.StringVar(&o.buildVCS, "buildvcs", "auto",
		"go build's flag: with false, or without git, binary and image do not tell their version and revision")
	flags.BoolVar(&o.push, "push", false, "push the image to the registry in -image too, with the credentials of docker login")

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
		return o, errors.New("-output must be the path of a file")
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

// parsePlatforms returns the platforms of a comma-separated list. Only Linux runs a program from an image that holds nothing
// else.
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
			return nil, fmt.Errorf("-platforms: %q is not a platform of Linux that Go builds for, such as linux/amd64", platform)
		case seen[platform]:
			return nil, fmt.Errorf("-platforms: %s is there twice", platform)
		}
		seen[platform] = true
		platforms = append(platforms, v1.Platform{OS: system, Architecture: arch})
	}
	return platforms, nil
}
