// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command newcontroller begins a controller of one's own: it writes a fresh git repository with a copy of this one in which
// everything bears other names.
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
	dir := flag.String("dir", "", "`folder` of the new repository, which must be empty or not exist yet")
	module := flag.String("module", "", "Go module `path`; its last element names the program, its image and its namespace")
	group := flag.String("group", "", "API `group`, a domain of yours")
	kind := flag.String("kind", "", "`kind` of the objects, in CamelCase")
	plural := flag.String("plural", "", "`plural` of the kind, in lower case; made by Kubernetes' rules if it is empty")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", *dir, *module, *group, *kind, *plural); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run writes the new repository to dir from the repository at root. Whatever it refuses it refuses before it writes, and if
// it fails later, it leaves nothing behind.
func run(ctx context.Context, root, dir, module, group, kind, plural string) error {
	n, err := newNames(module, group, kind, plural)
	if err != nil {
		return err
	}
	files, err := readFiles(ctx, root)
	if err != nil {
		return err
	}
	if err := checkCollisions(files, n); err != nil {
		return err
	}
	dir, err = checkDir(ctx, root, dir)
	if err != nil {
		return err
	}
	var copies []file
	for _, f := range files {
		if f.generated() {
			continue // The copy makes its own.
		}
		renamed, err := f.renamed(n)
		if err != nil {
			return err
		}
		copies = append(copies, renamed)
	}
	if err := write(ctx, root, dir, copies, n); err != nil {
		return err
	}
	fmt.Printf("%s is in %s. Go on with:\n  cd %s\n  make run\n", n.name, dir, dir)
	return nil
}
