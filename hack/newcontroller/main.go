// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command newcontroller creates a new controller: a git repository with a copy of this project under other names.
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
	dir := flag.String("dir", "", "`directory` of the new repository, which must be empty or not exist")
	module := flag.String("module", "", "Go module `path`; its last element is also the name of the binary, the image and the namespace")
	group := flag.String("group", "", "API `group`, a domain that you own")
	kind := flag.String("kind", "", "`kind` in CamelCase")
	plural := flag.String("plural", "", "`plural` of the kind in lower case; derived by the rules of Kubernetes' code generators by default")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", *dir, *module, *group, *kind, *plural); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run creates the new repository in dir from the repository in root. All input is validated before anything is written, and a
// failure leaves nothing behind.
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
			continue // Generated again in the copy.
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
	fmt.Printf("Created %s in %s. Next steps:\n  cd %s\n  make run\n", n.name, dir, dir)
	return nil
}
