// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster builds and runs a local Kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // plus the signal's number, as shells have it
)

const usage = `Usage:
  cluster build [-source DIR] [-bin-dir DIR]
      Compile the local Kubernetes. It does nothing if that has been done.
  cluster run [-bin-dir DIR] [-nodes N] [-- COMMAND ARG...]
      Start a cluster, run the command with its kubeconfig and kubectl, stop the cluster, and exit as the command did.
      Without a command the cluster runs until Ctrl-C.
`

const running = `The local Kubernetes is running. Use it from another terminal with:

  export KUBECONFIG=%[1]q
  export KUBECACHEDIR=%[4]q
  export PATH=%[2]q:"$PATH"
  kubectl get nodes

Logs are in %[3]s. Ctrl-C stops it and removes everything.
`

var endSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

func main() {
	verb, args := "", os.Args[1:]
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "build":
		os.Exit(build(args))
	case "run":
		os.Exit(run(args))
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(exitUsage)
	}
}

// newFlagSet returns a set of flags, which exits with status 2 on those that it does not know.
func newFlagSet(verb string) (flags *flag.FlagSet, binDir *string) {
	flags = flag.NewFlagSet("cluster "+verb, flag.ExitOnError)
	binDir = flags.String("bin-dir", filepath.Join(".build", "bin"), "`directory` of the binaries")
	return flags, binDir
}

func build(args []string) int {
	flags, binDir := newFlagSet("build")
	source := flags.String("source", filepath.Join("hack", "cluster", "controlplane"),
		"`directory` of the control plane's Go module")
	flags.Parse(args)
	if flags.NArg() > 0 {
		return complain(exitUsage, fmt.Errorf("build takes no argument such as %q", flags.Arg(0)))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), endSignals...)
	defer cancel()
	if err := cluster.Build(ctx, *source, *binDir, os.Stderr); err != nil {
		return complain(exitFailure, err)
	}
	return 0
}

func run(args []string) (code int) {
	flags, binDir := newFlagSet("run")
	nodes := flags.Int("nodes", 3, "`number` of nodes")
	flags.Parse(args)
	if *nodes < 1 {
		return complain(exitUsage, fmt.Errorf("-nodes must be at least 1, not %d", *nodes))
	}
	signals := make(chan os.Signal, 2) // as many as make a difference: one to end, one to end at once
	signal.Notify(signals, endSignals...)

	c, err := start(cluster.Options{BinDir: *binDir, Nodes: *nodes})
	if len(signals) > 0 {
		fmt.Fprintln(os.Stderr, "cluster: interrupted")
		if c != nil {
			c.Stop()
		}
		return exitSignal + int((<-signals).(syscall.Signal))
	}
	if err != nil {
		return complain(exitFailure, err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			code = complain(exitFailure, err)
		}
	}()
	if flags.NArg() > 0 {
		return runCommand(c, flags.Args(), signals)
	}
	fmt.Fprintf(os.Stderr, running, c.Kubeconfig(), c.BinDir(), filepath.Dir(c.LogFile(cluster.APIServer)), c.KubectlCache())
	select {
	case <-signals:
		return 0
	case <-c.Done():
		return complain(exitFailure, c.Err())
	}
}

// start starts a cluster unless a signal comes first.
func start(options cluster.Options) (*cluster.Cluster, error) {
	ctx, cancel := signal.NotifyContext(context.Background(), endSignals...)
	defer cancel()
	return cluster.Start(ctx, options)
}

// runCommand runs the command and returns its exit code. The first signal is for the command; the second is for us, who
// then do not wait any longer.
func runCommand(c *cluster.Cluster, command []string, signals <-chan os.Signal) int {
	cmd := c.Command(context.Background(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if !isTerminal(os.Stdin) { // a command that reads from there would be stopped: it is not in the foreground
		cmd.Stdin = os.Stdin
	}
	if err := cmd.Start(); err != nil {
		return complain(exitFailure, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	broken, forwarded := c.Done(), false
	for {
		select {
		case err := <-ended:
			return exitCode(err)
		case received := <-signals:
			if forwarded {
				return exitSignal + int(received.(syscall.Signal))
			}
			forwarded = true
			if err := c.SignalCommands(received.(syscall.Signal)); err != nil {
				return complain(exitFailure, err)
			}
		case <-broken:
			broken = nil
			complain(exitFailure, c.Err()) // the command is left to find out what it can do without
		}
	}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// exitCode returns the exit code for what Wait returned.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return complain(exitFailure, err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}

// complain prints the error and returns the code.
func complain(code int, err error) int {
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return code
}
