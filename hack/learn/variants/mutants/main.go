// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants measures what random walks notice: it changes the controller in one line that decides something, walks, and says which promise
// was broken. For a mutant that breaks none, it says whether unit tests notice it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/sample-controller/hack/learn/variants"
)

func main() {
	root := flag.String("root", ".", "`directory` of the project")
	count := flag.Int("n", 30, "how many mutants, chosen at random")
	seed := flag.Uint64("seed", 1, "of the choice")
	walks := flag.Int("walks", 100, "at most how many walks a mutant is tested with")
	only := flag.String("only", "", "regular `expression` for the files to change")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *count, *seed, *walks, *only); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// product are the files that decide what the controller does to objects.
var product = []string{"controller.go", "pkg/control/*.go", "pkg/foostatus/*.go", "pkg/ownership/*.go", "pkg/priorityqueue/*.go", "pkg/election/*.go"}

func run(ctx context.Context, root string, count int, seed uint64, walks int, only string) error {
	all, err := find(root, only)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%d mutants of %d\n", min(count, len(all)), len(all))
	tried, noticed, byTests := 0, 0, 0
	for _, m := range all {
		if tried == count {
			break
		}
		began := time.Now()
		result, err := m.walk(ctx, root, dir, walks)
		if err == nil && result == survived && m.isTested(ctx, root, dir) {
			result += ", unit tests notice it"
			byTests++
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			continue // It does not compile.
		}
		tried++
		if !strings.HasPrefix(result, survived) {
			noticed++
		}
		fmt.Printf("%4.0fs %s:%d: %s\n      %s\n", time.Since(began).Seconds(), m.file, m.line, strings.Join(strings.Fields(m.what), " "), result)
	}
	fmt.Printf("walks notice %d of %d mutants, unit tests %d of the others\n", noticed, tried, byTests)
	return ctx.Err()
}

// find returns all mutants of the product.
func find(root, only string) (all []mutant, err error) {
	expression, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	for _, pattern := range product {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(name, "_test.go") || !expression.MatchString(name) {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			mutants, err := mutantsOf(filepath.ToSlash(name), content)
			if err != nil {
				return nil, err
			}
			all = append(all, mutants...)
		}
	}
	return all, nil
}

const survived = "SURVIVED"

// broken matches what a walk says, which is further indented than what the test itself does.
var broken = regexp.MustCompile(`(?m)^ {8,}(?:simulation|trial)\.go:\d+: ([^:\n]+): `)

// walk returns the first promise that the mutant breaks, or how else the walks fail, or survived. The error is that of the compiler.
func (m mutant) walk(ctx context.Context, root, dir string, walks int) (string, error) {
	overlay, err := variants.Overlay(root, filepath.Join(dir, "overlay"), map[string][]byte{m.file: m.content})
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "simulation.test")
	if err := variants.BuildSimulation(ctx, root, overlay, program); err != nil {
		return "", err
	}
	test := exec.CommandContext(ctx, program,
		"-test.run=^TestSimulation$", "-test.failfast", "-test.timeout=10m", fmt.Sprint("-walks=", walks), "-shrink=0")
	test.Dir = root
	output, err := test.CombinedOutput()
	if err == nil {
		return survived, nil
	}
	if story := broken.FindSubmatch(output); story != nil {
		return string(story[1]), nil
	}
	return fmt.Sprintf("the walks do not end: %.200s", output), nil
}

// isTested reports whether unit tests notice the mutant.
func (m mutant) isTested(ctx context.Context, root, dir string) bool {
	test := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-timeout=2m", "-skip=^TestSimulation$",
		"-overlay="+filepath.Join(dir, "overlay/overlay.json"), ".", "./pkg/...")
	test.Dir = root
	return test.Run() != nil
}
