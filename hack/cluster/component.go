// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Component is one of the processes that a cluster consists of.
type Component string

// The components, in the order in which they are started.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

// process is a run of a component.
type process struct {
	cmd    *exec.Cmd
	killed bool          // its end was asked for
	ended  chan struct{} // closed when it has ended
	err    error         // how; set before ended is closed
}

// Kill ends the component with SIGKILL and returns when it is gone. A component that does not run is left as it is.
func (c *Cluster) Kill(component Component) error {
	c.mu.Lock()
	process := c.processes[component]
	if process == nil {
		c.mu.Unlock()
		return nil
	}
	process.killed = true
	process.cmd.Process.Kill() // fails only if it has ended
	c.mu.Unlock()
	<-process.ended
	return nil
}

// Freeze stops the component with SIGSTOP: its connections stay open, but nothing is answered until Resume.
func (c *Cluster) Freeze(component Component) error { return c.signal(component, syscall.SIGSTOP) }

// Resume lets a frozen component go on.
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

// Restart starts the component again, after killing it if it runs, with the data, the certificates and the port that it
// had. It returns when etcd and kube-apiserver answer again, or an error if ctx ends first; the others only have to start,
// but kwok and the controller manager give up unless the API server answers within seconds.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	if err := c.Kill(component); err != nil {
		return err
	}
	if component == Kwok {
		if err := c.releaseNodes(ctx); err != nil {
			return err
		}
	}
	run, err := c.launch(component)
	if err != nil {
		return err
	}
	ctx, cancel := whileRunning(ctx, run.ended, func() error { return run.err })
	defer cancel()
	return c.waitReady(ctx, component)
}

// LogFile returns the path of the component's log, to which each run of it appends.
func (c *Cluster) LogFile(component Component) string {
	return c.path("logs", string(component)+".log")
}

// launch starts the component's process.
func (c *Cluster) launch(component Component) (*process, error) {
	log, err := os.OpenFile(c.LogFile(component), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	argv := c.commandLine(component)
	cmd := exec.Command(filepath.Join(c.options.BinDir, argv[0]), argv[1:]...)
	cmd.Dir = c.dir
	// Less memory for a little more work, unless the environment says otherwise.
	cmd.Env = slices.Concat([]string{"GOGC=50"}, cmd.Environ())
	cmd.Env = append(cmd.Env, "HOME="+c.dir) // whatever they keep at home goes when the cluster goes
	cmd.Stdout, cmd.Stderr = log, log
	joinGroup(cmd, c.leash.components)

	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", component, err)
	}
	run := &process{cmd: cmd, ended: make(chan struct{})}
	c.processes[component] = run
	go c.reap(component, run)
	return run, nil
}

// reap waits for the end of the process. An end that nobody asked for is the cluster's failure.
func (c *Cluster) reap(component Component, run *process) {
	err := run.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.processes, component)
	run.err = fmt.Errorf("%s ended unexpectedly (%w); the end of its log:\n%s",
		component, exitError(err), c.logTail(component))
	if !run.killed && !c.stopping {
		c.fail(run.err)
	}
	close(run.ended)
}

// exitError makes an error of an exit with status 0 as well: no component ever ends by itself.
func exitError(err error) error {
	if err == nil {
		return fmt.Errorf("exit status 0")
	}
	return err
}

// logTail returns the last lines of the component's log.
func (c *Cluster) logTail(component Component) []byte {
	const lines = 15
	log, err := os.ReadFile(c.LogFile(component))
	if err != nil {
		return []byte(err.Error())
	}
	all := slices.Collect(bytes.Lines(log))
	return bytes.TrimSpace(bytes.Join(all[max(0, len(all)-lines):], nil))
}
