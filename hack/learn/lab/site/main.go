// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command site builds the lab and serves its page, and builds variants of the controller when the page asks for them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "`directory` of the project")
	port := flag.Int("port", 0, "`port` of 127.0.0.1 to serve the page at; 0 is any free one")
	site := flag.String("site", "", "only write the lab and the documentation to a `directory`, for a static host")
	recordings := flag.Bool("recordings", false, "only write the recordings to .build/lab")
	repository := flag.String("repository", "https://github.com/kubernetes/sample-controller", "`URL` of the repository, for the links of the site")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *root, *port, *site, *repository, *recordings)
	if ctx.Err() != nil {
		err = nil // Interrupted, as intended.
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run builds the lab and writes its site or, if there is no directory for that, serves its page until ctx is done. Or it only writes the recordings.
func run(ctx context.Context, root string, port int, site, repository string, recordings bool) error {
	b, err := newBuilder(root)
	if err != nil {
		return err
	}
	if recordings {
		return b.recordAll(ctx)
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	if site != "" {
		return writeSite(ctx, b, site, repository)
	}
	if err := writePages(b.root, filepath.Join(b.dir, "docs"), repository); err != nil {
		return err
	}
	// Only on this machine: whoever reaches the page can make it build variants.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           newHandler(b, listener.Addr().String()),
		BaseContext:       func(net.Listener) context.Context { return ctx }, // Ctrl-C ends builds, too.
		ReadHeaderTimeout: 10 * time.Second,
	}
	fmt.Fprintf(os.Stderr, "The lab is at http://%s\nPress Ctrl-C to stop.\n", listener.Addr())
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
