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

// leash ties processes and a directory to this process: once let go, by release or because this process has died in
// whatever way, the processes are killed and the directory is removed.
//
// A watcher, a small shell script, waits for the end of a pipe whose other end only this process holds. The processes are
// in two process groups (a signal for the commands must not reach the components), which the watcher kills as a whole, so
// that it needs to know neither their number nor whether one of them is frozen. Each group has an anchor, a process that
// does nothing, so that the group's id stays taken until the watcher is through. This works wherever there is a shell;
// having the kernel kill the children of a dead parent would work on Linux only.
type leash struct {
	hold       *os.File
	watcher    *exec.Cmd
	components *exec.Cmd
	commands   *exec.Cmd
}

const (
	// The kernel hangs up a group with a frozen process when its parent dies; terminals hang up and interrupt as well.
	anchorScript = `trap '' HUP INT TERM; exec cat`

	// What was just killed may still be writing to the directory, hence the repetition.
	watcherScript = `trap '' HUP INT TERM
read -r nothing
for group in "$1" "$2"; do kill -s KILL -- "-$group"; done
tries=0
until rm -rf -- "$3" || [ "$tries" -ge 50 ]; do tries=$((tries + 1)); sleep 0.1; done`
)

func newLeash(dir string) (_ *leash, err error) {
	held, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	l := &leash{hold: hold}
	defer func() {
		if err != nil {
			l.release()
			err = fmt.Errorf("cannot start the shell that cleans up after the cluster: %w", err)
		}
	}()

	// The anchors end when the watcher does, which alone keeps the writing end of their pipe.
	anchored, anchor, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer anchored.Close()
	defer anchor.Close()
	if l.components, err = startAnchor(anchored); err != nil {
		return nil, err
	}
	if l.commands, err = startAnchor(anchored); err != nil {
		return nil, err
	}
	watcher := exec.Command("sh", "-c", watcherScript, "watcher",
		strconv.Itoa(l.components.Process.Pid), strconv.Itoa(l.commands.Process.Pid), dir)
	watcher.Dir = "/"
	watcher.Stdin = held
	watcher.ExtraFiles = []*os.File{anchor}
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := watcher.Start(); err != nil {
		return nil, err
	}
	l.watcher = watcher
	return l, nil
}

func startAnchor(stdin *os.File) (*exec.Cmd, error) {
	anchor := exec.Command("sh", "-c", anchorScript)
	anchor.Dir = "/"
	anchor.Stdin = stdin
	anchor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return anchor, anchor.Start()
}

// joinGroup makes the command start in the group of this anchor.
func joinGroup(cmd, anchor *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: anchor.Process.Pid}
}

// signalCommands sends the signal to every process in the group of commands.
func (l *leash) signalCommands(signal syscall.Signal) error {
	return syscall.Kill(-l.commands.Process.Pid, signal)
}

// release has the watcher kill the processes and remove the directory, and returns when it has. The processes are killed
// once more here, in case that the watcher was killed itself.
func (l *leash) release() {
	l.hold.Close()
	if l.watcher != nil {
		l.watcher.Wait()
	}
	for _, anchor := range []*exec.Cmd{l.components, l.commands} {
		if anchor != nil && anchor.Process != nil {
			syscall.Kill(-anchor.Process.Pid, syscall.SIGKILL)
			anchor.Wait()
		}
	}
}
