// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the throughput, latency and resource usage of this controller and of other implementations of Foo,
// against a real API server and etcd. No other component runs, so that none of them affects the results.
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

// Paths are relative to hack/check/bench, in which the benchmark runs.
const (
	root   = "../../.."
	binDir = root + "/.build/bin"
)

// numbers is a flag with a comma-separated list of positive numbers.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*n), " ", ","), "[]")
}

func (n *numbers) Set(value string) error {
	*n = nil
	for field := range strings.SplitSeq(value, ",") {
		number, err := strconv.Atoi(field)
		if err != nil || number < 1 {
			return errors.New("must be a comma-separated list of positive numbers")
		}
		*n = append(*n, number)
	}
	return nil
}

func main() {
	foos, workers := numbers{10000}, numbers{2, 16}
	flag.Var(&foos, "n", "`numbers` of Foos")
	flag.Var(&workers, "workers", "`numbers` of workers")
	rounds := flag.Int("rounds", 1, "`number` of rounds, in turns, in which new and scaled Foos and edits are measured; the rest is measured in the last one")
	only := flag.String("only", "", "comma-separated `programs` to measure: floor, sample-controller, controller-runtime, other")
	other := flag.String("other", "", "`command` of another program, without -kubeconfig; {workers} is replaced by the number of workers")
	keep := flag.String("keep", "", "`file` to write the table to")
	flag.Parse()
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "Error: -rounds must be at least 1")
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard()) // client-go logs each watch that is resumed or ends with its cluster.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, foos, workers, *rounds, *only, *other, *keep); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, foos, workers numbers, rounds int, only, other, keep string) error {
	dir, err := os.MkdirTemp(binDir, "bench")
	if err != nil {
		return fmt.Errorf("%w; build the local Kubernetes first with make cluster", err)
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
		selected := strings.Split(only, ",")
		for _, name := range selected {
			if !slices.ContainsFunc(programs, func(p program) bool { return p.name == name }) {
				return fmt.Errorf("-only=%s: there is no program %q", only, name)
			}
		}
		programs = slices.DeleteFunc(programs, func(p program) bool { return !slices.Contains(selected, p.name) })
	}

	machine, err := describeMachine(ctx)
	if err != nil {
		return err
	}
	var report bytes.Buffer
	out := io.MultiWriter(os.Stdout, &report)
	arguments := fmt.Sprintf("N=%s WORKERS=%s ROUNDS=%d", &foos, &workers, rounds)
	if only != "" {
		arguments += " ONLY=" + only
	}
	fmt.Fprintf(out, "Measured by `make bench %s` on %s, with etcd and the API server on the same machine%s.\n\n",
		arguments, machine, describeEnv(programs))
	results, err := measureAll(ctx, programs, foos, workers, rounds, out)
	if keep != "" && len(results) > 0 {
		err = errors.Join(err, os.WriteFile(keep, report.Bytes(), 0o644))
	}
	return err
}

// describeEnv returns the part of the header about the environment of the programs that have one of their own.
func describeEnv(programs []program) string {
	var description string
	for _, p := range programs {
		if len(p.env) > 0 {
			description += fmt.Sprintf("; %s with %s", p.name, strings.Join(p.env, " "))
		}
	}
	return description
}

// measureAll prints each row of the table as soon as it is measured. On an error it also returns the results so far.
func measureAll(ctx context.Context, programs []program, foos, workers []int, rounds int, out io.Writer) (results []measurement, err error) {
	printTitles(out)
	for _, count := range foos {
		for _, number := range workers {
			measured, err := measureInTurns(ctx, programs, count, number, rounds)
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

// measureInTurns measures the programs in alternating order, because the speed of a shared machine changes within minutes: every
// other round is reversed, so that a steady drift favors none of them. With more than maxFoosInAllPhases there is a single round.
func measureInTurns(ctx context.Context, programs []program, foos, workers, rounds int) ([]measurement, error) {
	if foos > maxFoosInAllPhases {
		rounds = 1
	}
	measured := make([][]measurement, len(programs))
	for round := range rounds {
		for turn := range programs {
			i := turn
			if round%2 == 1 {
				i = len(programs) - 1 - turn
			}
			p := programs[i]
			began := time.Now()
			result, err := measure(ctx, p, foos, workers, round == rounds-1)
			if err != nil {
				return nil, fmt.Errorf("%s with %d Foos and %d workers: %w", p.name, foos, workers, err)
			}
			fmt.Fprintf(os.Stderr, "%s with %d Foos and %d workers: round %d of %d took %s\n",
				p.name, foos, workers, round+1, rounds, time.Since(began).Round(time.Second))
			measured[i] = append(measured[i], result)
		}
	}
	var results []measurement
	for i := range measured {
		results = append(results, summary(measured[i]))
	}
	return results, nil
}

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
