// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps a controller from writing a Deployment at the speed at which others change, delete or
// reject it.
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
	initialBackoff = time.Second
	maxBackoff     = 1000 * time.Second
	// overrideDelay is how long after the end of a backoff the desired state has to be found before it counts as
	// held. Earlier, another instance with the same backoff may be about to write.
	overrideDelay = 2 * time.Second
)

// Pacer paces the writes of the Deployments of Foos. Each generation of a Foo has a backoff for each
// Deployment: the first write is made at once, and each one that the API server accepts or rejects starts the
// next backoff, from 1 s to 1000 s.
type Pacer struct {
	backoff      *flowcontrol.Backoff
	enqueueAfter func(foo cache.ObjectName, delay time.Duration)
}

// New returns a Pacer that calls enqueueAfter for a Foo that has to be synced at the end of a backoff, or
// overrideDelay later.
func New(enqueueAfter func(foo cache.ObjectName, delay time.Duration)) *Pacer {
	return &Pacer{flowcontrol.NewBackOff(initialBackoff, maxBackoff), enqueueAfter}
}

// Run forgets, until ctx is done, the backoffs of Foos that have not been written for twice the maximum.
func (p *Pacer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { p.backoff.GC() }, time.Minute)
}

func id(foo *samplev1alpha1.Foo, deploymentName string) string {
	return fmt.Sprintf("%s/%d/%s", foo.UID, foo.Generation, deploymentName)
}

// MayWrite reports whether no backoff of the Deployment is under way.
func (p *Pacer) MayWrite(ctx context.Context, foo *samplev1alpha1.Foo, deploymentName string) bool {
	id := id(foo, deploymentName)
	if p.backoff.IsInBackOffSinceUpdate(id, time.Now()) {
		klog.FromContext(ctx).V(4).Info("Not writing Deployment: backing off", "backoff", p.backoff.Get(id))
		return false
	}
	return true
}

// HasWritten reports whether Answered was called for the Deployment, unless the desired state has been held
// since.
func (p *Pacer) HasWritten(foo *samplev1alpha1.Foo, deploymentName string) bool {
	return p.backoff.Get(id(foo, deploymentName)) > 0
}

// Answered starts the next backoff, because the API server has accepted or rejected a write of the
// Deployment. At its end the Foo is synced: what differs then is corrected.
func (p *Pacer) Answered(ctx context.Context, foo *samplev1alpha1.Foo, deploymentName string) {
	id := id(foo, deploymentName)
	p.backoff.Next(id, time.Now())
	p.enqueue(ctx, foo, "end of write backoff", p.backoff.Get(id))
}

func (p *Pacer) enqueue(ctx context.Context, foo *samplev1alpha1.Foo, reason string, delay time.Duration) {
	klog.FromContext(ctx).V(4).Info("Enqueuing Foo", "reason", reason, "priority", "low", "after", delay)
	p.enqueueAfter(cache.MetaObjectToName(foo), delay)
}

// StillOverridden returns what the status of a Foo whose Deployment is in its desired state has to go on
// reporting. It returns nil if nothing is reported, or once the desired state is held: then the backoff is
// reset.
func (p *Pacer) StillOverridden(ctx context.Context, foo *samplev1alpha1.Foo) *foostatus.StalledError {
	id, now := id(foo, foo.Spec.DeploymentName), time.Now()
	if !p.backoff.IsInBackOffSinceUpdate(id, now.Add(-overrideDelay)) {
		p.backoff.Reset(id)
		return nil
	}
	if !p.backoff.IsInBackOffSinceUpdate(id, now) {
		p.enqueue(ctx, foo, "the desired state may be held", overrideDelay)
	}
	return foostatus.Reported(foo, foostatus.DeploymentOverridden)
}
