// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// floorName is the name of the program that the others are compared with.
const floorName = "floor"

// deploymentFile is the manifest with the environment of the sample-controller.
const deploymentFile = root + "/artifacts/install/base/deployment.yaml"

// program is a program to measure.
type program struct {
	name string
	// command is the command line without -kubeconfig. {workers} is replaced by the number of workers.
	command string
	env     []string
	// writesOnly is set for a program without caches, of which neither memory, idling nor edits are measured.
	writesOnly bool
}

// build compiles the built-in programs into dir.
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
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // As in the image.
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the programs: %w\n%s", err, output)
		}
	}
	env, err := manifestEnv()
	if err != nil {
		return nil, err
	}
	return []program{
		{name: floorName, command: filepath.Join(dir, "floor") + " -workers={workers}", writesOnly: true},
		{name: "sample-controller", command: filepath.Join(dir, "sample-controller") + " -workers={workers}", env: env},
		{name: "controller-runtime", command: filepath.Join(dir, "controllerruntime") + " -workers={workers}"},
	}, nil
}

// manifestEnv returns the environment variables in deploymentFile, with the benchmark's own values if it has any. They tune the garbage
// collector, on which memory and CPU usage depend.
func manifestEnv() ([]string, error) {
	manifest, err := os.ReadFile(deploymentFile)
	if err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		return nil, fmt.Errorf("%s: %w", deploymentFile, err)
	}
	var env []string
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			env = append(env, variable.Name+"="+cmp.Or(os.Getenv(variable.Name), variable.Value))
			os.Unsetenv(variable.Name) // All others have Go's default.
		}
	}
	return env, nil
}

// running is a running program.
type running struct {
	command *exec.Cmd
	log     string
	process *process.Process
	peak    atomic.Uint64 // resident memory in bytes
	ended   chan struct{}
}

// samplePeriod is the interval at which the resident memory is sampled for its peak.
const samplePeriod = 50 * time.Millisecond

// start starts the program with a kubeconfig.
func (p program) start(ctx context.Context, c *testCluster, kubeconfig string, workers int) (*running, error) {
	argv := strings.Fields(strings.ReplaceAll(p.command, "{workers}", strconv.Itoa(workers)))
	log, err := os.CreateTemp(c.Dir(), "program-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &running{command: c.Command(ctx, argv[0], append(argv[1:], "-kubeconfig="+kubeconfig)...), log: log.Name(), ended: make(chan struct{})}
	r.command.Env = append(r.command.Env, p.env...)
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

// sample records the peak of the resident memory.
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
	r.command.Process.Kill() // Fails only if the process has exited.
	<-r.ended
}

// check returns an error with the end of the log if the program has exited.
func (r *running) check() error {
	select {
	case <-r.ended:
		log, _ := os.ReadFile(r.log)
		return fmt.Errorf("%s exited (%s):\n%s", r.command.Path, r.command.ProcessState, log[max(0, len(log)-2000):])
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
