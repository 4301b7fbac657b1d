// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// quietTimeout is how long nothing may be achieved before no more is expected.
const quietTimeout = 20 * time.Second

// observer sees by watches how far the Foos are. It costs every program that is measured the same.
type observer struct {
	lock sync.Mutex
	// The round is one convergence of all Foos: to this generation, and as many replicas.
	generation  int64
	count       int
	deployments *progress
	statuses    *progress
	events      *progress
	// changed is closed, and replaced, whenever there is progress.
	changed chan struct{}
	// edits are the newest changes of Foos by a user, by the Foo's name.
	edits map[string]*edit
	err   error
}

// progress is which Foos have got something in this round, and when the last of them has.
type progress struct {
	names map[string]bool
	last  time.Time
}

// edit is one change of a Foo's replicas by a user.
type edit struct {
	replicas  int32
	began     time.Time
	took      time.Duration // 0 as long as the Deployment has not followed
	underLoad bool          // whether other Foos had not yet converged when it began
}

// startObserver watches until ctx ends.
func startObserver(ctx context.Context, c *testCluster) (*observer, error) {
	o := &observer{changed: make(chan struct{}), edits: map[string]*edit{}}
	o.begin(0, -1)
	deployments := c.kube.AppsV1().Deployments("")
	events := c.kube.CoreV1().Events(benchNamespace)
	foos := c.sample.SamplecontrollerV1alpha1().Foos(benchNamespace)
	list, err := foos.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	// Resource versions of one etcd are comparable, and nothing has happened yet.
	for _, err := range []error{
		o.watch(ctx, list.ResourceVersion, deployments.Watch, o.sawDeployment),
		o.watch(ctx, list.ResourceVersion, events.Watch, o.sawEvent),
		o.watch(ctx, list.ResourceVersion, foos.Watch, o.sawFoo),
	} {
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// watch calls saw for each change since resourceVersion until ctx ends. A watch that the API server ends, because it is busy
// with others, is resumed.
func (o *observer) watch(ctx context.Context, resourceVersion string, start cache.WatchFuncWithContext, saw func(watch.Event)) error {
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, resourceVersion, &cache.ListWatch{WatchFuncWithContext: start})
	if err != nil {
		return err
	}
	go func() {
		for event := range changes.ResultChan() {
			if event.Type == watch.Error {
				o.fail(ctx, apierrors.FromObject(event.Object))
				return
			}
			saw(event)
		}
	}()
	return nil
}

func (o *observer) fail(ctx context.Context, err error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if ctx.Err() == nil {
		o.err = err
		o.wake()
	}
}

// wake tells the waiting ones that there is something new. o.lock is held.
func (o *observer) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// begin begins a round.
func (o *observer) begin(count int, generation int64) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.count, o.generation = count, generation
	o.deployments, o.statuses, o.events = newProgress(), newProgress(), newProgress()
}

func newProgress() *progress { return &progress{names: map[string]bool{}} }

// reached notes that a Foo has got something. o.lock is held.
func (o *observer) reached(p *progress, name string) {
	if !p.names[name] {
		p.names[name] = true
		p.last = time.Now()
		o.wake()
	}
}

func (o *observer) sawDeployment(event watch.Event) {
	deployment, ok := event.Object.(*appsv1.Deployment)
	if !ok || event.Type == watch.Deleted {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	switch deployment.Namespace {
	case benchNamespace:
		if int64(*deployment.Spec.Replicas) == o.generation {
			o.reached(o.deployments, deployment.Name)
		}
	case editedNamespace:
		if edit := o.edits[deployment.Name]; edit != nil && edit.took == 0 && *deployment.Spec.Replicas == edit.replicas {
			edit.took = time.Since(edit.began)
			o.wake()
		}
	}
}

func (o *observer) sawFoo(event watch.Event) {
	foo, ok := event.Object.(*samplev1alpha1.Foo)
	if !ok {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	if foo.Status.ObservedGeneration == o.generation {
		o.reached(o.statuses, foo.Name)
	}
}

func (o *observer) sawEvent(event watch.Event) {
	seen, ok := event.Object.(*corev1.Event)
	if !ok || event.Type == watch.Deleted {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	o.reached(o.events, seen.InvolvedObject.Name)
}

// beginEdit notes that a user is about to change the replicas of a Foo.
func (o *observer) beginEdit(name string, replicas int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.edits[name] = &edit{replicas: replicas, began: time.Now(), underLoad: len(o.statuses.names) < o.count}
}

// wait waits until done, which is called with o.lock held, returns true. If there is no progress any more before, it returns
// all the same.
func (o *observer) wait(ctx context.Context, done func() bool) error {
	for {
		o.lock.Lock()
		changed, err, finished := o.changed, o.err, done()
		o.lock.Unlock()
		if err != nil || finished {
			return err
		}
		select {
		case <-changed:
		case <-time.After(quietTimeout):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// converged is how a round ended.
type converged struct {
	deployments, statuses, events int
	all                           time.Duration // until the last of them
}

// waitForRound waits until the round that began at the given time has ended.
func (o *observer) waitForRound(ctx context.Context, began time.Time) (converged, error) {
	err := o.wait(ctx, func() bool {
		return min(len(o.deployments.names), len(o.statuses.names), len(o.events.names)) >= o.count
	})
	o.lock.Lock()
	defer o.lock.Unlock()
	result := converged{deployments: len(o.deployments.names), statuses: len(o.statuses.names), events: len(o.events.names)}
	for _, p := range []*progress{o.deployments, o.statuses, o.events} {
		result.all = max(result.all, p.last.Sub(began))
	}
	return result, err
}
