// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command newcontroller creates a new controller: a git repository with a copy of this project under other names.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
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
	isUpdate := flag.Bool("update", false, "bring the repository in -dir, which was created before, up to date")
	isFollowed := flag.Bool("follow", false, "make the changes of -page in the repository in -dir, which was created before")
	page := flag.String("page", "", "`page` of the documentation, with its path in the repository")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *isUpdate:
		err = update(ctx, ".", *dir, os.Stdout)
	case *isFollowed:
		err = follow(ctx, *dir, *page, os.Stdout)
	default:
		if err = run(ctx, ".", *dir, input{*module, *group, *kind, *plural}); err == nil {
			err = introduce(ctx, *dir, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// input is what the user decides.
type input struct {
	module, group, kind, plural string
}

// introduce prints whose the parts of a new repository are, and what is next.
func introduce(ctx context.Context, dir string, out io.Writer) error {
	files, err := trackedFiles(ctx, dir)
	if err != nil {
		return err
	}
	l := countLines(files)
	_, err = fmt.Fprintf(out, `Created %[1]s with %[2]d files. Lines of code: %[3]d are yours, %[4]d are kept up to date by UPDATE=1, and
%[5]d are generated. Its README.md says which folders are whose. Next steps:
  cd %[1]s
  make run
To own something other than a Deployment, follow docs/learn/replace-the-deployment.md there. To do without superseded
Deployments, follow docs/learn/leave-out-the-rename.md. This makes their changes for you:
  make follow DIR=%[1]s PAGE=docs/learn/replace-the-deployment.md
`, dir, len(files), l.yours, l.kept, l.generated)
	return err
}

// run creates the new repository in dir from the repository in root. All input is validated before anything is written, and a
// failure leaves nothing behind.
func run(ctx context.Context, root, dir string, in input) error {
	n, err := newNames(in.module, in.group, in.kind, in.plural)
	if err != nil {
		return err
	}
	files, err := readFiles(ctx, root)
	if err != nil {
		return err
	}
	if n, err = avoidCollisions(files, n); err != nil {
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
	return write(ctx, root, dir, copies, n, in)
}
