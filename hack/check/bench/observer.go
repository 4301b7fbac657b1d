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

// progressTimeout ends the wait for a round without progress, whose results are then incomplete.
const progressTimeout = 20 * time.Second

// observer follows the progress of all Foos with watches, which cost every program the same.
type observer struct {
	lock sync.Mutex
	// In a round, all Foos converge to this generation, which is also their number of replicas.
	generation  int64
	count       int
	deployments *progress
	statuses    *progress
	events      *progress
	// changed is closed and replaced on each progress.
	changed chan struct{}
	// edits are the latest edits by the name of the Foo.
	edits map[string]*edit
	err   error
}

// progress is the set of Foos that have reached a step of the round, and the times of the first and the last one.
type progress struct {
	names       map[string]bool
	first, last time.Time
}

// edit is a change of a Foo's replicas by a user.
type edit struct {
	replicas  int32
	began     time.Time
	took      time.Duration // 0 until the Deployment is updated
	underLoad bool          // whether it began while other Foos were converging
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
	// A resource version is valid for all resources of one etcd.
	for _, err := range []error{
		o.watch(ctx, list.ResourceVersion, deployments.Watch, o.handleDeployment),
		o.watch(ctx, list.ResourceVersion, events.Watch, o.handleEvent),
		o.watch(ctx, list.ResourceVersion, foos.Watch, o.handleFoo),
	} {
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// watch calls handle for each change since resourceVersion until ctx ends. It resumes a watch that the API server closes under
// load.
func (o *observer) watch(ctx context.Context, resourceVersion string, start cache.WatchFuncWithContext, handle func(watch.Event)) error {
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
			handle(event)
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

// wake wakes all waiters. o.lock is held.
func (o *observer) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// begin starts a round.
func (o *observer) begin(count int, generation int64) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.count, o.generation = count, generation
	o.deployments, o.statuses, o.events = newProgress(), newProgress(), newProgress()
}

func newProgress() *progress { return &progress{names: map[string]bool{}} }

// reached records the progress of a Foo. o.lock is held.
func (o *observer) reached(p *progress, name string) {
	if !p.names[name] {
		p.names[name] = true
		p.last = time.Now()
		if len(p.names) == 1 {
			p.first = p.last
		}
		o.wake()
	}
}

func (o *observer) handleDeployment(event watch.Event) {
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

func (o *observer) handleFoo(event watch.Event) {
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

func (o *observer) handleEvent(event watch.Event) {
	recorded, ok := event.Object.(*corev1.Event)
	if !ok || event.Type == watch.Deleted {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	o.reached(o.events, recorded.InvolvedObject.Name)
}

// beginEdit records the start of an edit.
func (o *observer) beginEdit(name string, replicas int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.edits[name] = &edit{replicas: replicas, began: time.Now(), underLoad: len(o.statuses.names) < o.count}
}

// wait waits until done returns true, or there is no progress for progressTimeout. done is called with o.lock held.
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
		case <-time.After(progressTimeout):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// converged is the result of a round.
type converged struct {
	deployments, statuses, events int
	first                         time.Duration // until the first Deployment
	took                          time.Duration // until the last progress
}

// waitForRound waits for the end of the round that started at began.
func (o *observer) waitForRound(ctx context.Context, began time.Time) (converged, error) {
	err := o.wait(ctx, func() bool {
		return min(len(o.deployments.names), len(o.statuses.names), len(o.events.names)) >= o.count
	})
	o.lock.Lock()
	defer o.lock.Unlock()
	result := converged{deployments: len(o.deployments.names), statuses: len(o.statuses.names), events: len(o.events.names)}
	result.first = o.deployments.first.Sub(began)
	for _, p := range []*progress{o.deployments, o.statuses, o.events} {
		result.took = max(result.took, p.last.Sub(began))
	}
	return result, err
}
