// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/variants"
)

// The phases of a lab.
const (
	building = "building"
	starting = "starting"
	live     = "live"
	failed   = "failed"
)

// followPeriod is how long steps are collected before exercises are checked.
const followPeriod = 100 * time.Millisecond

// user is the user of the controller, and the name of its permissions.
const user = "sample-controller"

// lab is a local Kubernetes with the controller, and the stream of what happens in it.
type lab struct {
	root, binDir string
	stream       *stream
	merger       *merger
	gate         *gate
	injector     *injector
	exercises    *exercises

	cluster      *cluster.Cluster // these are set before the phase is live
	kubeClient   kubernetes.Interface
	sampleClient clientset.Interface
	rules        []rbacv1.PolicyRule

	variants map[string]variants.Variant // by their ID
	starts   chan variants.Variant       // for playVariants

	acting     sync.Mutex // is held by acts, faults and scenarios: one at a time
	program    program    // is guarded by acting
	lock       sync.Mutex
	phase      string
	progress   string
	instances  []*instance
	lasting    map[string]bool // faults, as NAME or NAME/LANE
	variant    *variantState   // that runs, or whose scenario is played
	endVariant func()
	changes    chan struct{}
}

func newLab(root string) (*lab, error) {
	l := &lab{root: root, binDir: filepath.Join(root, ".build", "bin"), stream: newStream(), merger: newMerger(), injector: &injector{},
		phase: building, lasting: map[string]bool{}, endVariant: func() {}, changes: make(chan struct{}),
		variants: map[string]variants.Variant{}, starts: make(chan variants.Variant, 1)}
	l.gate = newGate(l.changed)
	l.program = l.controller()
	all, err := variants.All()
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		l.variants[v.ID] = v
	}
	l.exercises, err = newExercises()
	return l, err
}

// changed wakes those who wait for a change of the state.
func (l *lab) changed() {
	l.lock.Lock()
	defer l.lock.Unlock()
	close(l.changes)
	l.changes = make(chan struct{})
}

// change changes the state.
func (l *lab) change(change func()) {
	l.lock.Lock()
	change()
	l.lock.Unlock()
	l.changed()
}

// record traces a step that the lab itself makes.
func (l *lab) record(s Step) {
	l.merger.record(time.Now(), func(t *tracer) { t.emit(s) })
}

// progressWriter shows the last line of the build's progress.
type progressWriter struct{ lab *lab }

func (w progressWriter) Write(text []byte) (int, error) {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	w.lab.change(func() { w.lab.progress = string(lines[len(lines)-1]) })
	return os.Stderr.Write(text)
}

// run builds and starts everything, and returns when ctx is done or the cluster has failed. It leaves nothing behind.
func (l *lab) run(ctx context.Context) (err error) {
	tracing, stopTracing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stopTracing()
	code, err := readSources(l.root)
	if err != nil {
		return err
	}
	running.Go(func() { l.merger.run(tracing, newTracer(code), l.stream) })
	running.Go(func() { l.follow(tracing) })
	defer func() {
		if err != nil {
			l.change(func() { l.phase, l.progress = failed, err.Error() })
		}
	}()

	if err := cluster.Build(ctx, filepath.Join(l.root, "hack/cluster/controlplane"), l.binDir, progressWriter{l}); err != nil {
		return err
	}
	l.change(func() { l.phase, l.progress = starting, "starting the local Kubernetes" })
	if l.cluster, err = cluster.Start(ctx, cluster.Options{BinDir: l.binDir}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.cluster.Stop()) }()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	go l.watchStored(ctx, foos, l.sampleClient.SamplecontrollerV1alpha1().RESTClient())
	go l.watchStored(ctx, deployments, l.kubeClient.AppsV1().RESTClient())
	defer func() {
		l.acting.Lock()
		defer l.acting.Unlock()
		l.stopInstances()
	}()
	if err := l.startInstances(1); err != nil {
		return err
	}
	l.change(func() { l.phase, l.progress = live, "" })
	playing, stopPlaying := context.WithCancel(ctx)
	defer stopPlaying() // Before the instances are stopped, and after that nothing is started.
	running.Go(func() { l.playVariants(playing) })
	select {
	case <-ctx.Done():
		return nil
	case <-l.cluster.Done():
		return l.cluster.Err()
	}
}

// prepare installs the CRD and the permissions of the controller.
func (l *lab) prepare(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", l.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	if l.kubeClient, err = kubernetes.NewForConfig(protobuf); err != nil {
		return err
	}
	if l.sampleClient, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(l.root, "artifacts/examples/crd.yaml")},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd/foos.samplecontroller.k8s.io"},
	} {
		if output, err := l.cluster.Command(ctx, "kubectl", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	if l.rules, err = readRules(filepath.Join(l.root, rbacFile)); err != nil {
		return err
	}
	return l.grant(ctx)
}

// readRules returns the rules of all Roles in a manifest.
func readRules(path string) ([]rbacv1.PolicyRule, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rules []rbacv1.PolicyRule
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var role rbacv1.Role
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			return rules, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rules = append(rules, role.Rules...)
	}
}

// grant gives the controller its permissions.
func (l *lab) grant(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: l.rules}
	_, roleErr := l.kubeClient.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	_, bindingErr := l.kubeClient.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return errors.Join(roleErr, bindingErr)
}

// watchStored traces what the API server stores in a lane, whether an instance sees it or not, until ctx is done.
func (l *lab) watchStored(ctx context.Context, lane string, client rest.Interface) {
	for ctx.Err() == nil {
		// A watch without a resourceVersion begins with all objects. What is known of them already makes no steps.
		events, err := client.Get().Resource(lane).Param("watch", "true").Stream(ctx)
		if err == nil {
			l.traceStored(lane, events)
			events.Close()
		}
		sleep(ctx, time.Second)
	}
}

func (l *lab) traceStored(lane string, events io.Reader) {
	frames := frames{isProtobuf: lane == deployments}
	buffer := make([]byte, 32<<10)
	for {
		size, err := events.Read(buffer)
		for frame := range frames.split(buffer[:size]) {
			l.merger.record(time.Now(), func(t *tracer) {
				if e := decodeEvent(frame, frames.isProtobuf); e.eventType != "ERROR" {
					t.store(lane, e.eventType, e.object, e.resourceVersion, e.raw)
				}
			})
		}
		if err != nil {
			return
		}
	}
}

// follow checks the exercises with each step of the stream until ctx is done.
func (l *lab) follow(ctx context.Context) {
	var last int64
	for {
		steps, more := l.stream.after(last)
		if len(steps) > 0 {
			last = steps[len(steps)-1].Seq
		}
		for _, passed := range l.exercises.check(steps) {
			l.record(passed)
			l.changed()
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
		sleep(ctx, followPeriod)
	}
}
