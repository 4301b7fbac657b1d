// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast this controller, and others that do the same job, serve Foos, and what they cost. The API
// server and etcd are real; nothing else runs that could be measured with them by mistake.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
	"k8s.io/klog/v2"
)

// The benchmark is run in its own directory.
const (
	root   = "../.."
	binDir = root + "/.build/bin"
)

// numbers is a flag that takes numbers with commas between them.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*n), " ", ","), "[]")
}

func (n *numbers) Set(value string) error {
	*n = nil
	for field := range strings.SplitSeq(value, ",") {
		number, err := strconv.Atoi(field)
		if err != nil || number < 1 {
			return errors.New("want numbers from 1 on, with commas between them")
		}
		*n = append(*n, number)
	}
	return nil
}

func main() {
	foos, workers := numbers{1000, 10000, 50000}, numbers{2, 16}
	flag.Var(&foos, "n", "`numbers` of Foos")
	flag.Var(&workers, "workers", "`numbers` of workers")
	only := flag.String("only", "", "measure only these `programs` beside the floor, of sample-controller, controller-runtime and other")
	other := flag.String("other", "", "another `command` to measure, without -kubeconfig; {workers} in it stands for the number of workers")
	keep := flag.String("keep", "", "write the table and plots of it into this `directory`")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // What client-go says of watches that are resumed, or end with their cluster, is no news.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, foos, workers, *only, *other, *keep); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, foos, workers []int, only, other, keep string) error {
	dir, err := os.MkdirTemp(binDir, "bench")
	if err != nil {
		return fmt.Errorf("%w; build the local Kubernetes first: make cluster", err)
	}
	defer os.RemoveAll(dir)
	programs, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if other != "" {
		programs = append(programs, program{name: "other", command: other})
	}
	if only != "" {
		wanted := append(strings.Split(only, ","), floorName)
		programs = slices.DeleteFunc(programs, func(p program) bool { return !slices.Contains(wanted, p.name) })
	}

	var table bytes.Buffer
	results, err := measureAll(ctx, programs, foos, workers, io.MultiWriter(os.Stdout, &table))
	if keep != "" && len(results) > 0 {
		err = errors.Join(err, keepAll(ctx, keep, table.String(), results))
	}
	return err
}

// measureAll prints the rows of the table as they are measured. If it is interrupted, it returns those that were.
func measureAll(ctx context.Context, programs []program, foos, workers []int, out io.Writer) (results []measurement, err error) {
	printTitles(out)
	for _, count := range foos {
		for _, number := range workers {
			measured, err := measureInTurns(ctx, programs, count, number)
			if err != nil {
				return results, err
			}
			for _, result := range measured {
				results = append(results, result)
				printRow(out, results)
			}
		}
	}
	return results, nil
}

// repetitions is in how many rounds cold convergence and a user's edits are measured. The rest is measured in the last one. With
// more Foos than mostInAllPhases there is one round.
const repetitions = 4

// measureInTurns measures the programs, which take turns because the speed of a shared machine changes within minutes. Every
// other round goes backwards, so that a speed that rises or falls steadily favours none.
func measureInTurns(ctx context.Context, programs []program, foos, workers int) ([]measurement, error) {
	count := repetitions
	if foos > mostInAllPhases {
		count = 1
	}
	measured := make([][]measurement, len(programs))
	for round := range count {
		for turn := range programs {
			i := turn
			if round%2 == 1 {
				i = len(programs) - 1 - turn
			}
			p := programs[i]
			began := time.Now()
			result, err := measure(ctx, p, foos, workers, round == count-1)
			if err != nil {
				return nil, fmt.Errorf("%s with %d Foos and %d workers: %w", p.name, foos, workers, err)
			}
			fmt.Fprintf(os.Stderr, "%s with %d Foos and %d workers: round %d of %d took %s\n",
				p.name, foos, workers, round+1, count, time.Since(began).Round(time.Second))
			measured[i] = append(measured[i], result)
		}
	}
	var results []measurement
	for i := range measured {
		results = append(results, summary(measured[i]))
	}
	return results, nil
}

// keepAll writes the table and its plots into a directory.
func keepAll(ctx context.Context, dir, table string, results []measurement) error {
	machine, err := describeMachine(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Measured by `make bench` on %s, with etcd and the API server on the same machine.\n\n%s", machine, table)
	if err := os.WriteFile(filepath.Join(dir, "results.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return plotAll(dir, results)
}

// describeMachine tells what the figures were measured on.
func describeMachine(ctx context.Context) (string, error) {
	processors, err := cpu.InfoWithContext(ctx)
	if err != nil {
		return "", err
	}
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d cores (%s), %d GiB of memory, %s", runtime.NumCPU(), processors[0].ModelName, memory.Total>>30, runtime.Version()), nil
}
