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

// Options say what kind of cluster to start.
type Options struct {
	// BinDir is the directory that Build has filled.
	BinDir string
	// Dir is the directory in which the cluster makes its own for everything that it keeps: data, certificates, logs.
	// Default: BinDir/run.
	Dir string
	// Nodes is the number of nodes. Default: 3.
	Nodes int
	// APIServerOnly leaves out everything but etcd and kube-apiserver: objects are stored, but nothing acts on them, and
	// the roles view, edit and admin, which a controller fills, are empty.
	APIServerOnly bool
	// APIServerFlags are further flags for kube-apiserver. They override those that it has.
	APIServerFlags []string
}

const (
	defaultNodes = 3

	// A start takes seconds. A machine so busy that it takes longer than this is not worth the wait.
	startTimeout = 3 * time.Minute

	// startAttempts is how often a start is tried if somebody else takes a port that was free a moment ago.
	startAttempts = 5
)

// Cluster is a running local Kubernetes.
type Cluster struct {
	options       Options
	dir           string
	leash         *leash
	authority     *authority
	etcdPort      int
	apiServerPort int
	etcdClient    *http.Client
	apiClient     *http.Client
	auditLog      auditLog

	mu        sync.Mutex
	processes map[Component]*process // those that run
	stopping  bool
	failure   error
	done      chan struct{}
	stop      func() error
}

// Start starts a cluster and returns when it is ready for use: a Deployment that is created then becomes Available. ctx
// bounds the start only; the cluster runs until Stop, or until this process ends in whatever way. The error says which
// component failed, with the end of its log, or which command builds what is missing.
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
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
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
		auditLog:  auditLog{running: map[string]int{}},
		done:      make(chan struct{}),
	}
	c.stop = sync.OnceValue(c.stopOnce)
	var err error
	if c.leash, err = newLeash(c.dir); err != nil {
		return nil, err
	}
	if err = c.prepare(ctx); err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// run starts the components, each when those that it needs are ready.
func (c *Cluster) run(ctx context.Context) error {
	ctx, cancel := whileRunning(ctx, c.done, c.Err)
	defer cancel()
	for _, component := range []Component{Etcd, APIServer} { // the latter waits for the former by itself
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

// Stop kills the components and the commands, removes everything that the cluster kept, and returns when that is done.
// Nothing is asked to end in an orderly way, because nothing of it is used again. Further calls do nothing more.
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
	c.leash.release()
	for _, process := range running {
		<-process.ended
	}
	return os.RemoveAll(c.dir) // for the error, if the watcher could not do it
}

// Done is closed when a component has ended unexpectedly, or by Stop. Err tells which.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err returns how a component ended unexpectedly, with the end of its log, or nil if none has. After the first one it is
// always that one.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// fail closes c.done for this reason, unless that has been done. c.mu is held.
func (c *Cluster) fail(err error) {
	select {
	case <-c.done:
	default:
		c.failure = err
		close(c.done)
	}
}

// Dir returns the directory of everything that the cluster keeps, which Stop removes.
func (c *Cluster) Dir() string { return c.dir }

// BinDir returns the absolute path of the directory that kubectl is in.
func (c *Cluster) BinDir() string { return c.options.BinDir }

// URL returns the address of the API server.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.apiServerPort) }

func (c *Cluster) etcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.etcdPort) }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// Command is a command for use with the cluster, as exec.CommandContext returns it: the administrator's kubeconfig is in
// its KUBECONFIG, and BinDir is the first place where it, and Command itself, looks for programs such as kubectl. It and
// what it starts never outlive the cluster. It is not in the terminal's foreground, which means that it gets no signals
// and no input from there.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if path := filepath.Join(c.options.BinDir, name); filepath.Base(name) == name && isFile(path) {
		name = path
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+c.options.BinDir+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"KUBECACHEDIR="+c.KubectlCache())
	joinGroup(cmd, c.leash.commands)
	return cmd
}

// KubectlCache returns the directory where kubectl should keep what it knows of the cluster (KUBECACHEDIR). In its usual place it
// would be left behind, and mislead it about a later cluster at the same address.
func (c *Cluster) KubectlCache() string { return c.path("cache") }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// SignalCommands sends the signal to all processes that have come of Command.
func (c *Cluster) SignalCommands(signal syscall.Signal) error { return c.leash.signalCommands(signal) }
