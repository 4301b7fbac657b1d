// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	controlPlaneBinary = "controlplane"
	kwokBinary         = "kwok"
	kubectlBinary      = "kubectl" // a symbolic link to the control plane's binary

	kwokPackage       = "sigs.k8s.io/kwok/cmd/kwok"
	kubernetesModule  = "k8s.io/kubernetes"
	stampFile         = "cluster.stamp"
	downloadingPrefix = "go: downloading "
)

// Build builds the control plane, kubectl and kwok from the module in sourceDir and installs them in binDir. The first build
// takes minutes and reports its progress. Build does nothing if the binaries are up to date with the sources and the Go
// version. It can be interrupted: packages that were compiled are cached, and binDir never contains a partial binary.
// Concurrent builds into the same binDir wait for each other.
func Build(ctx context.Context, sourceDir, binDir string, progress io.Writer) error {
	binDir, err := filepath.Abs(binDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return err
	}
	lock, err := lockFile(filepath.Join(binDir, ".cluster.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	b := &builder{sourceDir: sourceDir, binDir: binDir, lock: lock, progress: newProgress(progress)}
	defer b.progress.end()
	if err := b.build(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted; the next build continues from here: %w", context.Cause(ctx))
		}
		return fmt.Errorf("cannot build the local Kubernetes: %w", err)
	}
	return nil
}

// lockFile acquires an exclusive lock on the file, which is held until all duplicates of its descriptor are closed.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return file, nil
}

type builder struct {
	sourceDir, binDir string
	lock              *os.File
	progress          *progress
	hinted            bool
}

func (b *builder) build(ctx context.Context) error {
	stamp, err := b.stamp(ctx)
	if err != nil || b.upToDate(stamp) {
		return err
	}
	ldflags, err := b.ldflags(ctx)
	if err != nil {
		return err
	}
	staging := filepath.Join(b.binDir, ".staging")
	if err := os.MkdirAll(staging, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := b.compile(ctx, ldflags, staging); err != nil {
		return err
	}
	return b.install(staging, stamp)
}

// stamp returns a hash of everything that the binaries depend on.
func (b *builder) stamp(ctx context.Context) (string, error) {
	version, err := b.output(ctx, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOOS, runtime.GOARCH, version, buildFlags)
	var sources []string
	for _, pattern := range []string{"go.mod", "go.sum", "*.go"} {
		matches, err := filepath.Glob(filepath.Join(b.sourceDir, pattern))
		if err != nil {
			return "", err
		}
		sources = append(sources, matches...)
	}
	for _, path := range sources {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %x\n", filepath.Base(path), sha256.Sum256(content))
	}
	return fmt.Sprintf("%x\n", hash.Sum(nil)), nil
}

func (b *builder) upToDate(stamp string) bool {
	found, err := os.ReadFile(filepath.Join(b.binDir, stampFile))
	return err == nil && string(found) == stamp && checkBinaries(b.binDir) == nil
}

// checkBinaries returns an error with the command that builds the binaries if one of them is missing.
func checkBinaries(binDir string) error {
	for _, name := range []string{controlPlaneBinary, kwokBinary, kubectlBinary} {
		path := filepath.Join(binDir, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the local Kubernetes is not built (there is no %s); build it with: make cluster", path)
		}
	}
	return nil
}

// ldflags sets the version that the binaries report. The build date is the date of the release, for reproducible builds.
func (b *builder) ldflags(ctx context.Context) (string, error) {
	const format = `{{.Version}} {{.Time.Format "2006-01-02T15:04:05Z07:00"}}`
	found, err := b.output(ctx, "list", "-m", "-f", format, kubernetesModule)
	if err != nil {
		return "", err
	}
	version, date, _ := strings.Cut(strings.TrimSpace(found), " ")
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("unexpected version %q of %s", version, kubernetesModule)
	}
	flags := []string{"-s", "-w"}
	// The commit is unknown: modules do not contain it.
	for _, variable := range []string{"gitVersion=" + version, "gitMajor=" + numbers[0], "gitMinor=" + numbers[1],
		"buildDate=" + date, "gitCommit="} {
		for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags, "-X", pkg+"."+variable)
		}
	}
	return strings.Join(flags, " "), nil
}

// buildFlags are also passed to go list, because whether a package is stale depends on them. Version control information
// would change the binaries with every commit. Without DWARF, which the linker drops anyway, the compiler takes a tenth less
// CPU time; the standard library is left alone, because it is shared with other builds.
var buildFlags = []string{"-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-gcflags=std="}

// compile builds the packages into dir.
func (b *builder) compile(ctx context.Context, ldflags, dir string) error {
	packages := []string{".", kwokPackage}
	stale, err := b.stalePackages(ctx, slices.Concat(buildFlags, []string{"-deps"}, packages))
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
	args := slices.Concat([]string{"build", "-v", "-ldflags=" + ldflags, "-o", dir + string(filepath.Separator)}, buildFlags, packages)
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

// manyPackages take more than about a minute to compile.
const manyPackages = 500

// hint suggests, once, what to do during a long build.
func (b *builder) hint() {
	if !b.hinted {
		b.progress.print("the first build takes minutes; meanwhile, read controller.go from the top, or the chart in README.md")
	}
	b.hinted = true
}

// install moves the binaries to binDir, and the stamp last: without it the next build starts over.
func (b *builder) install(staging, stamp string) error {
	if err := os.Symlink(controlPlaneBinary, filepath.Join(staging, kubectlBinary)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(staging, stampFile), []byte(stamp), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(b.binDir, stampFile)); err != nil {
		return err
	}
	for _, name := range []string{controlPlaneBinary, kwokBinary, kubectlBinary, stampFile} {
		if err := os.Rename(filepath.Join(staging, name), filepath.Join(b.binDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// command returns a go command in the source directory. It inherits the lock, in case it outlives this process.
func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.sourceDir
	// The binaries are for this machine and from this module, even if the environment says otherwise.
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
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
