// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// processGroups are two process groups, one for the components and one for the commands that users run, so that a signal to
// the commands does not reach the components. They are killed, and a directory is removed, by kill or when this process
// dies, however it dies.
//
// Pdeathsig exists on Linux only and does not reach grandchildren. Instead, a shell script, the reaper, reads from a pipe
// whose other end is open in this process only; at end of file it kills both groups, frozen processes included. Each group
// has a leader that does nothing, so that the group's ID is not reused before the reaper has exited.
type processGroups struct {
	alive      *os.File // the reaper waits until it is closed
	reaper     *exec.Cmd
	components *exec.Cmd // the group's leader
	commands   *exec.Cmd // the group's leader
}

const (
	// When a parent dies, the kernel sends SIGHUP to an orphaned group with a stopped process; terminals send SIGHUP and
	// SIGINT as well.
	leaderScript = `trap '' HUP INT TERM; exec cat`

	// A process that was just killed may still be writing to the directory, hence the retries.
	reaperScript = `trap '' HUP INT TERM
read -r eof
for group in "$1" "$2"; do kill -s KILL -- "-$group"; done
tries=0
until rm -rf -- "$3" || [ "$tries" -ge 50 ]; do tries=$((tries + 1)); sleep 0.1; done`
)

func newProcessGroups(dir string) (_ *processGroups, err error) {
	parentAlive, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer parentAlive.Close()
	g := &processGroups{alive: alive}
	defer func() {
		if err != nil {
			g.kill()
			err = fmt.Errorf("cannot start the processes that clean up after the cluster: %w", err)
		}
	}()

	// Only the reaper keeps the writing end of the leaders' pipe: they exit after it.
	reaperAlive, reaper, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reaperAlive.Close()
	defer reaper.Close()
	if g.components, err = startLeader(reaperAlive); err != nil {
		return nil, err
	}
	if g.commands, err = startLeader(reaperAlive); err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", reaperScript, "reaper",
		strconv.Itoa(g.components.Process.Pid), strconv.Itoa(g.commands.Process.Pid), dir)
	cmd.Dir = "/"
	cmd.Stdin = parentAlive
	cmd.ExtraFiles = []*os.File{reaper}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.reaper = cmd
	return g, nil
}

func startLeader(stdin *os.File) (*exec.Cmd, error) {
	leader := exec.Command("sh", "-c", leaderScript)
	leader.Dir = "/"
	leader.Stdin = stdin
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return leader, leader.Start()
}

// joinGroup makes cmd start in the leader's process group.
func joinGroup(cmd, leader *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Process.Pid}
}

// signalCommands sends the signal to all processes in the commands' group.
func (g *processGroups) signalCommands(signal syscall.Signal) error {
	return syscall.Kill(-g.commands.Process.Pid, signal)
}

// kill kills both groups, removes the directory and waits until that is done. It does not rely on the reaper alone, which
// may have been killed.
func (g *processGroups) kill() {
	g.alive.Close()
	if g.reaper != nil {
		g.reaper.Wait()
	}
	for _, leader := range []*exec.Cmd{g.components, g.commands} {
		if leader != nil && leader.Process != nil {
			syscall.Kill(-leader.Process.Pid, syscall.SIGKILL)
			leader.Wait()
		}
	}
}
