// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Component is one of the processes of a cluster.
type Component string

// The components, in start order.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

// process is a process of a component.
type process struct {
	cmd    *exec.Cmd
	killed bool          // by Kill: its exit is expected
	exited chan struct{} // closed when it has exited
	err    error         // set before exited is closed
}

// Kill sends SIGKILL to the component and waits until it has exited. It does nothing if the component is not running.
func (c *Cluster) Kill(component Component) error {
	c.mu.Lock()
	process := c.processes[component]
	if process == nil {
		c.mu.Unlock()
		return nil
	}
	process.killed = true
	process.cmd.Process.Kill() // fails only if it has exited
	c.mu.Unlock()
	<-process.exited
	return nil
}

// Freeze sends SIGSTOP to the component: its connections stay open, but it does not respond until Resume.
func (c *Cluster) Freeze(component Component) error { return c.signal(component, syscall.SIGSTOP) }

// Resume sends SIGCONT to a frozen component.
func (c *Cluster) Resume(component Component) error { return c.signal(component, syscall.SIGCONT) }

func (c *Cluster) signal(component Component, signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	process := c.processes[component]
	if process == nil {
		return fmt.Errorf("%s is not running", component)
	}
	return process.cmd.Process.Signal(signal)
}

// Restart starts the component with the same data, certificates and port, after killing it if it is running. For etcd and
// kube-apiserver it waits until they are ready or ctx is done; for the others it does not wait, but kwok and
// kube-controller-manager exit if the API server is not available within seconds.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	if err := c.Kill(component); err != nil {
		return err
	}
	if component == Kwok {
		if err := c.releaseNodes(ctx); err != nil {
			return err
		}
	}
	process, err := c.launch(component)
	if err != nil {
		return err
	}
	ctx, cancel := withDone(ctx, process.exited, func() error { return process.err })
	defer cancel()
	return c.waitReady(ctx, component)
}

// LogFile returns the path of the component's log. Restarts append to it.
func (c *Cluster) LogFile(component Component) string {
	return c.path("logs", string(component)+".log")
}

// launch starts a process of the component.
func (c *Cluster) launch(component Component) (*process, error) {
	log, err := os.OpenFile(c.LogFile(component), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.options.BinDir, string(component)), c.arguments(component)...)
	cmd.Dir = c.dir
	// Trade CPU for memory, unless GOGC is set in the environment.
	cmd.Env = slices.Concat([]string{"GOGC=50"}, cmd.Environ())
	cmd.Env = append(cmd.Env, "HOME="+c.dir) // so that caches are removed with the cluster
	cmd.Stdout, cmd.Stderr = log, log
	joinGroup(cmd, c.groups.components)

	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", component, err)
	}
	process := &process{cmd: cmd, exited: make(chan struct{})}
	c.processes[component] = process
	go c.wait(component, process)
	return process, nil
}

// wait waits until the process exits. An unexpected exit is a failure of the cluster.
func (c *Cluster) wait(component Component, process *process) {
	err := process.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0") // no component exits by itself
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.processes, component)
	process.err = fmt.Errorf("%s exited unexpectedly (%w); its last log lines:\n%s", component, err, c.logTail(component))
	if !process.killed && !c.stopping {
		c.fail(process.err)
	}
	close(process.exited)
}

// logTail returns the last lines of the component's log, or why it cannot be read.
func (c *Cluster) logTail(component Component) []byte {
	const lines = 15
	log, err := os.ReadFile(c.LogFile(component))
	if err != nil {
		return []byte(err.Error())
	}
	all := slices.Collect(bytes.Lines(log))
	return bytes.TrimSpace(bytes.Join(all[max(0, len(all)-lines):], nil))
}
