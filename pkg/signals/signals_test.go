// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const childEnv = "SIGNALS_TEST_CHILD"

// TestMain runs the tests or, if the environment says so, is the process under test: it calls SetupSignalHandler twice, or it writes its
// state to standard output until it is ended.
func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "twice":
		SetupSignalHandler()
		SetupSignalHandler()
	default:
		ctx := SetupSignalHandler()
		os.Stdout.WriteString("ready\n")
		<-ctx.Done()
		os.Stdout.WriteString("cancelled\n")
		select {}
	}
}

func TestSetupSignalHandler(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			child, output := startChild(t, "once")
			expectLine(t, output, "ready")
			child.Process.Signal(signal)
			expectLine(t, output, "cancelled")
			child.Process.Signal(signal)
			if code := exitCode(child.Wait()); code != 1 {
				t.Errorf("exit code after the second signal = %d, want 1", code)
			}
		})
	}
}

func TestSetupSignalHandlerTwice(t *testing.T) {
	child, _ := startChild(t, "twice")
	if code := exitCode(child.Wait()); code != 2 {
		t.Errorf("exit code after the second call = %d, want 2, as of a panic", code)
	}
}

func startChild(t *testing.T, mode string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+mode)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill() })
	return child, bufio.NewReader(output)
}

func expectLine(t *testing.T, output *bufio.Reader, want string) {
	t.Helper()
	line, err := output.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if line != want+"\n" {
		t.Fatalf("output = %q, want %q", line, want)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
