// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command release builds the files of a release from a commit. It needs Go and git, but no Docker, kubectl or Helm.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	version := flag.String("version", "", "`version` of the release, such as v1.2.3")
	image := flag.String("image", name, "`name` of the image without a tag; with a registry, the manifests also contain its digest")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "Error: unexpected argument %q; -h explains all flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", *version, *image, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}
