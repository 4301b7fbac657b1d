// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	downloadingPrefix = "go: downloading "

	// manyPackages take about a minute to compile.
	manyPackages = 500
)

// buildFlags are also passed to go list, because whether a package is stale depends on them. No flag changes how a package is
// compiled: what the controller and the control plane both contain is then compiled once. Version control information would change
// the binaries with every commit.
var buildFlags = []string{"-buildvcs=false"}

// withoutPlugins is a build tag. With plugins of kustomize, the linker needs a C compiler and keeps unused code.
const withoutPlugins = "kustomize_disable_go_plugin_support"

// ldflags sets the version that the binaries report. The build date is the date of the release, for reproducible builds.
func ldflags(kubernetes module) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(kubernetes.version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	// The commit is unknown: modules do not contain it.
	for _, variable := range []string{"gitVersion=" + kubernetes.version, "gitMajor=" + major, "gitMinor=" + minor,
		"buildDate=" + kubernetes.date, "gitCommit="} {
		for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags, "-X", pkg+"."+variable)
		}
	}
	return strings.Join(flags, " ")
}

// compile builds the packages into dir.
func (b *builder) compile(ctx context.Context, packages, tags []string, ldflags, dir string) error {
	flags := append(slices.Clone(buildFlags), "-modfile="+b.modFile, "-tags="+strings.Join(append(tags, withoutPlugins), ","))
	stale, err := b.stalePackages(ctx, slices.Concat(flags, []string{"-deps"}, packages))
	if err != nil {
		return err
	}
	if len(stale) == 0 {
		b.progress.show("linking")
	}
	if len(stale) > manyPackages {
		b.hint()
	}
	estimate := newEstimate(stale)
	args := slices.Concat([]string{"build", "-v", "-ldflags=" + ldflags, "-o", dir + string(filepath.Separator)}, flags, packages)
	return runLines(b.command(ctx, args...), func(line string) bool {
		if !estimate.compile(line) {
			return strings.HasPrefix(line, downloadingPrefix)
		}
		if compiled := estimate.compiled(); compiled == estimate.count {
			b.progress.show("compiled %d packages, linking", compiled)
		} else {
			b.progress.show("compiling %d/%d%v: %s", compiled, estimate.count, estimate, line)
		}
		return true
	})
}

// stalePackages returns the weights of the packages to compile. It downloads their modules. args are arguments of go list.
func (b *builder) stalePackages(ctx context.Context, args []string) (map[string]int, error) {
	const format = "{{if .Stale}}{{.ImportPath}} {{len .GoFiles}} {{len .Deps}}{{end}}"
	downloaded := 0
	cmd := b.command(ctx, slices.Concat([]string{"list", "-f", format}, args)...)
	var output bytes.Buffer
	cmd.Stdout = &output
	err := runLines(cmd, func(line string) bool {
		module, ok := strings.CutPrefix(line, downloadingPrefix)
		if ok {
			b.hint()
			downloaded++
			b.progress.show("downloading module %d: %s", downloaded, module)
		}
		return ok
	})
	if err != nil {
		return nil, err
	}
	weights := map[string]int{}
	for line := range strings.Lines(output.String()) {
		var pkg string
		var files, deps int
		if _, err := fmt.Sscan(line, &pkg, &files, &deps); err != nil {
			return nil, fmt.Errorf("unexpected output of go list: %q", line)
		}
		weights[pkg] = weight(files, deps)
	}
	return weights, nil
}

// hint suggests, once, what to do during a long build.
func (b *builder) hint() {
	if !b.hinted {
		b.progress.print("the first build takes minutes; meanwhile, read controller.go from the top, or the chart in README.md")
	}
	b.hinted = true
}

// command returns a go command in the source directory. It inherits the lock, in case it outlives this process.
func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.sourceDir
	// The binaries are for this machine and from this module and its go.mod file, even if the environment says otherwise.
	cmd.Env = append(cmd.Environ(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH,
		"GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly")
	cmd.ExtraFiles = []*os.File{b.lock}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go removes its temporary files
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (b *builder) output(ctx context.Context, args ...string) (string, error) {
	cmd := b.command(ctx, args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	err := runLines(cmd, func(line string) bool { return strings.HasPrefix(line, downloadingPrefix) })
	return strings.TrimSpace(stdout.String()), err
}

// runLines runs the command and calls handle with each line of its standard error. If the command fails, the lines for which
// handle returned false are part of the error.
func runLines(cmd *exec.Cmd, handle func(line string) bool) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var rest []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if !handle(lines.Text()) {
			rest = append(rest, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", cmd.Args[0], cmd.Args[1], err, strings.Join(rest, "\n"))
	}
	return nil
}
