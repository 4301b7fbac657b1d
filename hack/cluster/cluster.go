// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options configure a cluster.
type Options struct {
	// BinDir is the directory that was passed to Build. The environment variable KUBERNETES must be the same, too.
	BinDir string
	// Dir is the parent of the directory that the cluster creates for its data, certificates and logs. Default: BinDir/run.
	Dir string
	// Nodes is the number of nodes. Default: 3.
	Nodes int
	// APIServerOnly starts etcd and kube-apiserver only. No controller runs: nothing reconciles the objects, and the
	// aggregated cluster roles view, edit and admin are empty.
	APIServerOnly bool
	// APIServerFlags are additional flags for kube-apiserver. They override the default ones.
	APIServerFlags []string
}

const (
	defaultNodes = 3

	// startTimeout is generous: a cluster starts in seconds.
	startTimeout = 3 * time.Minute

	// startAttempts bounds the retries if another process takes a port between choosing and using it.
	startAttempts = 5
)

// Cluster is a running local Kubernetes.
type Cluster struct {
	options       Options
	dir           string
	groups        *processGroups
	authority     *authority
	etcdPort      int
	apiServerPort int
	etcdClient    *http.Client
	apiClient     *http.Client
	auditLog      auditLog

	mu        sync.Mutex
	processes map[Component]*process // running ones only
	stopping  bool
	failure   error
	done      chan struct{}
	stop      func() error
}

// Start starts a cluster and returns when it is ready: Deployments that are created from then on become Available. ctx
// bounds the start only; the cluster runs until Stop is called or this process exits. The error contains the name and the
// last log lines of the component that failed, or the command that builds missing binaries.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the cluster is not ready after %v", startTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		c, err := start(ctx, options)
		if err == nil || attempt == startAttempts || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return c, err
		}
	}
}

func (o Options) complete() (Options, error) {
	var err error
	if o.BinDir, err = filepath.Abs(versionDir(o.BinDir)); err != nil {
		return o, err
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(o.BinDir, "run")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, err
	}
	if o.Nodes == 0 {
		o.Nodes = defaultNodes
	}
	return o, checkBinaries(o.BinDir)
}

func start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{
		options:   options,
		dir:       filepath.Join(options.Dir, "cluster-"+strings.ToLower(rand.Text()[:10])),
		processes: map[Component]*process{},
		auditLog:  auditLog{open: map[string]int{}},
		done:      make(chan struct{}),
	}
	c.stop = sync.OnceValue(c.stopOnce)
	var err error
	if c.groups, err = newProcessGroups(c.dir); err != nil {
		return nil, err
	}
	if err = c.prepare(); err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// run starts the components in the order of their dependencies.
func (c *Cluster) run(ctx context.Context) error {
	ctx, cancel := withDone(ctx, c.done, c.Err)
	defer cancel()
	for _, component := range []Component{Etcd, APIServer} { // kube-apiserver waits for etcd itself
		if _, err := c.launch(component); err != nil {
			return err
		}
	}
	if err := c.waitReady(ctx, APIServer); err != nil {
		return err
	}
	if c.options.APIServerOnly {
		return nil
	}
	for _, component := range []Component{ControllerManager, Scheduler, Kwok} {
		if _, err := c.launch(component); err != nil {
			return err
		}
	}
	if err := c.createNodes(ctx); err != nil {
		return err
	}
	return c.waitUsable(ctx)
}

// Stop kills the components and commands without a graceful shutdown and removes the cluster's directory. It returns when
// all of that is done. It can be called more than once.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) stopOnce() error {
	c.mu.Lock()
	c.stopping = true
	running := make([]*process, 0, len(c.processes))
	for _, process := range c.processes {
		running = append(running, process)
	}
	c.fail(nil)
	c.mu.Unlock()
	c.groups.kill()
	for _, process := range running {
		<-process.exited
	}
	return os.RemoveAll(c.dir) // returns the error if the reaper failed to
}

// Done returns a channel that is closed when a component exits unexpectedly, or by Stop. Err returns the reason.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err returns an error with the exit status and the last log lines of the first component that exited unexpectedly, or nil
// if none has.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// fail closes c.done and records the reason, unless it is closed already. c.mu must be held.
func (c *Cluster) fail(err error) {
	select {
	case <-c.done:
	default:
		c.failure = err
		close(c.done)
	}
}

// Dir returns the directory with the cluster's data, certificates and logs, which Stop removes.
func (c *Cluster) Dir() string { return c.dir }

// BinDir returns the absolute path of the directory that contains the binaries.
func (c *Cluster) BinDir() string { return c.options.BinDir }

// URL returns the URL of the API server.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.apiServerPort) }

func (c *Cluster) etcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.etcdPort) }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// Command returns a command with KUBECONFIG set to the administrator's kubeconfig and BinDir first in PATH, where Command
// itself looks for name, too. The command and its descendants are killed with the cluster. It is not in the foreground
// process group of the terminal, and so receives neither signals nor input from it.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if path := filepath.Join(c.options.BinDir, name); filepath.Base(name) == name && isFile(path) {
		name = path
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+c.options.BinDir+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"KUBECACHEDIR="+c.KubectlCache())
	joinGroup(cmd, c.groups.commands)
	return cmd
}

// KubectlCache returns the directory for kubectl's discovery cache (KUBECACHEDIR). In the default directory it would be left
// behind, and be stale for a later cluster at the same address.
func (c *Cluster) KubectlCache() string { return c.path("cache") }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// SignalCommands sends the signal to all commands and their descendants.
func (c *Cluster) SignalCommands(signal syscall.Signal) error { return c.groups.signalCommands(signal) }
