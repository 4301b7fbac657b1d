// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps a controller from writing a Deployment as fast as others change, delete or reject it.
package pacing

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

const (
	initialPause = time.Second
	maxPause     = 1000 * time.Second
	// overrideDelay is how long after a pause the desired state must still be found to count as held: another
	// instance with the same pause may be about to write.
	overrideDelay = 2 * time.Second
)

// Pacer paces the writes of Deployments, each for each generation of its Foo: the first is made at once, and
// each that the API server accepts or rejects starts the next pause, of 1 s, 2 s, and so on up to 1000 s.
type Pacer struct {
	pauses       *flowcontrol.Backoff
	enqueueAfter func(foo cache.ObjectName, delay time.Duration)
}

// New returns a Pacer that calls enqueueAfter for a Foo that has to be synced after a delay.
func New(enqueueAfter func(foo cache.ObjectName, delay time.Duration)) *Pacer {
	return &Pacer{flowcontrol.NewBackOff(initialPause, maxPause), enqueueAfter}
}

// Run forgets, until ctx is done, the pauses of Deployments that were not written for twice the maximum.
func (p *Pacer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { p.pauses.GC() }, time.Minute)
}

func id(foo *samplev1alpha1.Foo, deploymentName string) string {
	return fmt.Sprintf("%s/%d/%s", foo.UID, foo.Generation, deploymentName)
}

// MayWrite reports whether no pause of the Deployment is under way. At the end of one, the Foo is synced.
func (p *Pacer) MayWrite(ctx context.Context, foo *samplev1alpha1.Foo, deploymentName string) bool {
	id := id(foo, deploymentName)
	isPaused := p.pauses.IsInBackOffSinceUpdate(id, time.Now())
	if isPaused {
		klog.FromContext(ctx).V(4).Info("Not writing Deployment before the end of the write pause",
			"pause", p.pauses.Get(id))
	}
	return !isPaused
}

// HasWritten reports whether Answered was called for the Deployment and its desired state was not held since.
func (p *Pacer) HasWritten(foo *samplev1alpha1.Foo, deploymentName string) bool {
	return p.pauses.Get(id(foo, deploymentName)) > 0
}

// Answered starts the next pause after the API server has accepted or rejected a write of a Deployment. At
// its end the Foo is synced, to correct what differs, and 2 s later, to reset the pause if nothing does.
func (p *Pacer) Answered(ctx context.Context, foo *samplev1alpha1.Foo, deploymentName string) {
	id := id(foo, deploymentName)
	p.pauses.Next(id, time.Now())
	pause := p.pauses.Get(id)
	p.enqueue(ctx, foo, "end of write pause", pause)
	p.enqueue(ctx, foo, "the desired state may be held", pause+overrideDelay)
}

func (p *Pacer) enqueue(ctx context.Context, foo *samplev1alpha1.Foo, reason string, delay time.Duration) {
	klog.FromContext(ctx).V(4).Info("Enqueuing Foo", "reason", reason, "priority", "low", "after", delay)
	p.enqueueAfter(cache.MetaObjectToName(foo), delay)
}

// StillOverridden returns what the status of a Foo has to go on reporting though its Deployment is in the
// desired state, if anything. Once that state is held it returns nil, and resets the pause.
func (p *Pacer) StillOverridden(foo *samplev1alpha1.Foo) *foostatus.StalledError {
	id := id(foo, foo.Spec.DeploymentName)
	if !p.pauses.IsInBackOffSinceUpdate(id, time.Now().Add(-overrideDelay)) {
		p.pauses.Reset(id)
		return nil
	}
	return foostatus.Reported(foo, foostatus.DeploymentOverridden)
}
