// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// floorName is the name of the program that the others are compared with.
const floorName = "floor"

// program is one of the programs that are measured.
type program struct {
	name string
	// command is the program with its flags, without -kubeconfig. {workers} stands for the number of workers.
	command string
	// bare says that it only makes requests: it has no cache, and serves no edits.
	bare bool
}

// build compiles the programs that are always measured into dir.
func build(ctx context.Context, dir string) ([]program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, module := range []struct {
		directory string
		packages  []string
	}{{root, []string{"."}}, {".", []string{"./floor", "./controllerruntime"}}} {
		command := exec.CommandContext(ctx, "go", append([]string{"build", "-o", dir + "/"}, module.packages...)...)
		command.Dir = module.directory
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // As in an image: C's library takes memory of its own.
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the programs: %w\n%s", err, output)
		}
	}
	return []program{
		{name: floorName, command: filepath.Join(dir, "floor") + " -workers={workers}", bare: true},
		{name: "sample-controller", command: filepath.Join(dir, "sample-controller") + " -workers={workers}"},
		{name: "controller-runtime", command: filepath.Join(dir, "controllerruntime") + " -workers={workers}"},
	}, nil
}

// running is a program that runs.
type running struct {
	command *exec.Cmd
	log     string
	process *process.Process
	peak    atomic.Uint64
	ended   chan struct{}
}

// samplePeriod is how often the memory of a program is looked at, for its peak.
const samplePeriod = 50 * time.Millisecond

// start starts the program as the user whose kubeconfig is given.
func (p program) start(ctx context.Context, c *testCluster, kubeconfig string, workers int) (*running, error) {
	argv := strings.Fields(strings.ReplaceAll(p.command, "{workers}", strconv.Itoa(workers)))
	log, err := os.CreateTemp(c.Dir(), "program-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &running{command: c.Command(ctx, argv[0], append(argv[1:], "-kubeconfig="+kubeconfig)...), log: log.Name(), ended: make(chan struct{})}
	r.command.Stdout, r.command.Stderr = log, log
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		r.command.Wait()
		close(r.ended)
	}()
	if r.process, err = process.NewProcess(int32(r.command.Process.Pid)); err != nil {
		r.stop()
		return nil, err
	}
	go r.sample()
	return r, nil
}

// sample keeps the peak of the resident memory.
func (r *running) sample() {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if resident, err := r.resident(); err == nil {
				r.peak.Store(max(r.peak.Load(), resident))
			}
		case <-r.ended:
			return
		}
	}
}

func (r *running) stop() {
	r.command.Process.Kill() // fails only if it has ended
	<-r.ended
}

// check returns an error with what the program has said if it has ended.
func (r *running) check() error {
	select {
	case <-r.ended:
		log, _ := os.ReadFile(r.log)
		return fmt.Errorf("%s has ended (%s):\n%s", r.command.Path, r.command.ProcessState, log[max(0, len(log)-2000):])
	default:
		return nil
	}
}

// resident returns the resident memory in bytes.
func (r *running) resident() (uint64, error) {
	memory, err := r.process.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return memory.RSS, nil
}

// cpu returns the CPU seconds that the program has used.
func (r *running) cpu() (float64, error) {
	times, err := r.process.Times()
	if err != nil {
		return 0, err
	}
	return times.User + times.System, nil
}
