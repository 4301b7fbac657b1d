// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asCommand makes the test binary run main.
const asCommand = "CLUSTER_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Unsetenv(asCommand)
		main()
	}
	os.Exit(m.Run())
}

func binDir() string {
	if dir := os.Getenv("CLUSTER_BIN_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "..", ".build", "bin")
}

func command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(cmd.Environ(), asCommand+"=1")
	return cmd
}

func TestUsageErrors(t *testing.T) {
	for _, args := range []string{"", "walk", "run -no-such-flag", "run -nodes 0", "build something"} {
		cmd := command(t, strings.Fields(args)...)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != exitUsage {
			t.Errorf("cluster %s: exit code %d, want %d", args, got, exitUsage)
		}
	}
}

func TestRunCommand(t *testing.T) {
	var stdout, stderr bytes.Buffer
	cmd := command(t, "run", "-bin-dir", binDir(), "-nodes", "2", "--", "sh", "-c", "kubectl get nodes -o name; exit 7")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7; standard error:\n%s", got, &stderr)
	}
	if got, want := stdout.String(), "node/node-0\nnode/node-1\n"; got != want {
		t.Errorf("got output %q, want %q", got, want)
	}
}

// The first interrupt is forwarded to the command, which ignores it; the second stops the cluster.
func TestSecondInterruptStopsCluster(t *testing.T) {
	cmd := command(t, "run", "-bin-dir", binDir(), "--", "sh", "-c",
		`trap 'echo interrupted' INT; echo "${KUBECONFIG%/*}"; while :; do sleep 1; done`)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	dir, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the command did not start: %v", err)
	}
	cmd.Process.Signal(os.Interrupt)
	if line, err := lines.ReadString('\n'); line != "interrupted\n" {
		t.Fatalf("the command was not interrupted: it printed %q (%v)", line, err)
	}
	began := time.Now()
	cmd.Process.Signal(os.Interrupt)
	io.Copy(io.Discard, lines) // until the last process that has the command's output open exits
	cmd.Wait()
	t.Logf("stopped in %v", time.Since(began))
	if got, want := cmd.ProcessState.ExitCode(), exitSignal+int(syscall.SIGINT); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
	if _, err := os.Stat(strings.TrimSpace(dir)); !os.IsNotExist(err) {
		t.Errorf("%s was not removed (%v)", dir, err)
	}
}
