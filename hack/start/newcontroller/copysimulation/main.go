// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command copysimulation copies the simulation into the module of another controller, with a test to complete.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	dir := flag.String("dir", "", "`directory` of the other module")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", *dir, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run copies the simulation from the repository in root into the module in dir. All input is validated before anything is written.
func run(ctx context.Context, root, dir string, out io.Writer) error {
	m, err := findModule(ctx, root, dir)
	if err != nil {
		return err
	}
	files, err := readPackage(root, m.path)
	if err != nil {
		return err
	}
	test, err := newTest(m)
	if err != nil {
		return fmt.Errorf("DIR=%s: %w", dir, err)
	}
	if err := writePackage(ctx, root, m.dir, files); err != nil {
		return err
	}
	fmt.Fprintf(out, "Copied the simulation to %s.\n", filepath.Join(dir, packageDir))
	if err := test.write(m.dir, out); err != nil {
		return err
	}
	if err := m.require(ctx, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "Next steps:\n  cd %s\n  go test -vet=off -v -run=TestSimulation %s\n", dir, test.packagePath())
	return nil
}

// output runs a command in a directory. Which modules are used is decided by the go.mod there.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s\n%s: %w", bytes.TrimSpace(stderr.Bytes()), strings.Join(command.Args, " "), err)
	}
	return stdout.String(), nil
}
