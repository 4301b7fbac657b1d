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
	exitSignal  = 128 // plus the number of the signal, as in shells
)

const usage = `Usage:
  cluster build [-source DIR] [-bin-dir DIR]
      Build the local Kubernetes unless it is up to date. Binaries in KUBEBUILDER_ASSETS and PATH are used if they have a
      usable version. Another minor version of Kubernetes than the default one is built, and run, with the environment
      variable KUBERNETES=1.35.
  cluster run [-bin-dir DIR] [-nodes N] [-- COMMAND ARG...]
      Start a cluster, run the command with its kubeconfig and kubectl, stop the cluster, and exit with the command's exit
      code. Without a command, run the cluster until Ctrl-C.
`

const runningFormat = `The local Kubernetes is running. To use it in another terminal:

  export KUBECONFIG=%[1]q
  export KUBECACHEDIR=%[4]q
  export PATH=%[2]q:"$PATH"
  kubectl get nodes

Logs are in %[3]s. Press Ctrl-C to stop and remove everything.
`

var shutdownSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

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
		return fail(exitUsage, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), shutdownSignals...)
	defer cancel()
	if err := cluster.Build(ctx, *source, *binDir, os.Stderr); err != nil {
		return fail(exitFailure, err)
	}
	return 0
}

func run(args []string) (code int) {
	flags, binDir := newFlagSet("run")
	nodes := flags.Int("nodes", 3, "`number` of nodes")
	flags.Parse(args)
	if *nodes < 1 {
		return fail(exitUsage, fmt.Errorf("-nodes must be at least 1, not %d", *nodes))
	}
	signals := make(chan os.Signal, 2) // the first is forwarded to the command, the second stops the cluster
	signal.Notify(signals, shutdownSignals...)

	c, err := start(cluster.Options{BinDir: *binDir, Nodes: *nodes})
	if len(signals) > 0 {
		fmt.Fprintln(os.Stderr, "cluster: interrupted")
		if c != nil {
			c.Stop()
		}
		return exitSignal + int((<-signals).(syscall.Signal))
	}
	if err != nil {
		return fail(exitFailure, err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			code = fail(exitFailure, err)
		}
	}()
	if flags.NArg() > 0 {
		return runCommand(c, flags.Args(), signals)
	}
	fmt.Fprintf(os.Stderr, runningFormat, c.Kubeconfig(), c.BinDir(), filepath.Dir(c.LogFile(cluster.APIServer)), c.KubectlCache())
	select {
	case <-signals:
		return 0
	case <-c.Done():
		return fail(exitFailure, c.Err())
	}
}

// start starts a cluster. It returns an error if it is interrupted by a signal.
func start(options cluster.Options) (*cluster.Cluster, error) {
	ctx, cancel := signal.NotifyContext(context.Background(), shutdownSignals...)
	defer cancel()
	return cluster.Start(ctx, options)
}

// runCommand runs the command and returns its exit code. It forwards the first signal to the command, and does not wait for
// the command after the second.
func runCommand(c *cluster.Cluster, command []string, signals <-chan os.Signal) int {
	cmd := c.Command(context.Background(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if !isTerminal(os.Stdin) { // a background process that reads from the terminal is stopped
		cmd.Stdin = os.Stdin
	}
	if err := cmd.Start(); err != nil {
		return fail(exitFailure, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()

	failed, forwarded := c.Done(), false
	for {
		select {
		case err := <-exited:
			return exitCode(err)
		case received := <-signals:
			if forwarded {
				return exitSignal + int(received.(syscall.Signal))
			}
			forwarded = true
			if err := c.SignalCommands(received.(syscall.Signal)); err != nil {
				return fail(exitFailure, err)
			}
		case <-failed:
			failed = nil
			fail(exitFailure, c.Err()) // the command decides whether it can go on
		}
	}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// exitCode returns the exit code for an error of Wait.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return fail(exitFailure, err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}

// fail prints the error and returns the code.
func fail(code int, err error) int {
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return code
}
