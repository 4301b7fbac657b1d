// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command lab runs the controller on the local Kubernetes, and serves a page that shows each step of each key, and on which the
// controller and its requests can be broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	root := flag.String("root", ".", "`directory` of the project")
	address := flag.String("address", "127.0.0.1:0", "`address` to serve the page at, on 127.0.0.1")
	text := flag.Bool("text", false, "print the steps")
	docs := flag.String("docs", "", "only write the documents of the lab to a `directory`")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // client-go logs each watch that is resumed or ends with its cluster.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var err error
	if *docs != "" {
		err = writeDocs(*root, *docs)
	} else {
		err = serve(ctx, *root, *address, *text)
	}
	if ctx.Err() != nil {
		err = nil // Interrupted, as intended.
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// serve runs a lab and serves its page until ctx is done.
func serve(ctx context.Context, root, address string, text bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host != "127.0.0.1" {
		return errors.New("-address must be on 127.0.0.1, because whoever reaches the page controls the cluster")
	}
	l, err := newLab(root)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           l.handler(listener.Addr().String()),
		BaseContext:       func(net.Listener) context.Context { return ctx }, // Ctrl-C ends acts, too.
		ReadHeaderTimeout: 10 * time.Second,
	}
	go server.Serve(listener) // It returns when it is closed.
	defer server.Close()
	page := "http://" + listener.Addr().String()
	fmt.Fprintf(os.Stderr, "The lab is at %s\nPress Ctrl-C to stop and remove everything.\n", page)
	openBrowser(page)
	if text {
		l.merger.attend()
		go printSteps(ctx, l.stream)
	}
	return l.run(ctx)
}

// openBrowser opens a page in a browser, where there is one.
func openBrowser(page string) {
	command := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		command = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return
	}
	opener := exec.Command(command, page)
	if opener.Start() == nil {
		go opener.Wait()
	}
}

// printSteps prints steps as they happen until ctx is done.
func printSteps(ctx context.Context, s *stream) {
	var last int64
	for {
		steps, more := s.after(last)
		for _, s := range steps {
			fmt.Println(s)
			last = s.Seq
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}
