// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// observedLock is a lock that observes, in the responses of the API server, whether this instance holds the
// Lease.
type observedLock struct {
	resourcelock.Interface

	// renewed is when the last successful renewal was sent, which is before the time from which standbys count.
	// It is nil if the Lease is not held.
	renewed atomic.Pointer[time.Time]
	// forbiddenSince maps a verb to the time when the API server began to forbid it. If it does so for
	// forbiddenTimeout, endElection is called.
	forbiddenSince   map[string]time.Time
	forbiddenTimeout time.Duration
	endElection      context.CancelCauseFunc
}

// Get implements resourcelock.Interface.
func (l *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != l.Identity() {
		l.renewed.Store(nil)
	}
	l.observeForbidden(ctx, "get", err)
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return l.observeWrite(ctx, "create", sent, record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return l.observeWrite(ctx, "update", sent, record, l.Interface.Update(ctx, record))
}

func (l *observedLock) observeWrite(
	ctx context.Context, verb string, sent time.Time, record resourcelock.LeaderElectionRecord, err error,
) error {
	l.observeForbidden(ctx, verb, err)
	switch {
	case err == nil && record.HolderIdentity == l.Identity():
		l.renewed.Store(&sent)
		clear(l.forbiddenSince) // While the Lease is held, it need not be read.
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		l.renewed.Store(nil) // The Lease was released, or another client has written or deleted it.
	}
	return err
}

// observeForbidden logs that the API server forbids a verb when it begins to, and ends the election when that
// lasts too long.
func (l *observedLock) observeForbidden(ctx context.Context, verb string, err error) {
	if !apierrors.IsForbidden(err) {
		delete(l.forbiddenSince, verb)
		return
	}
	err = fmt.Errorf("the Lease of the leader election cannot be used; grant the verb and resource named here with RBAC, or use another "+
		"Lease with -leader-elect-resource-name and -leader-elect-resource-namespace: %w", err)
	since, ok := l.forbiddenSince[verb]
	if !ok {
		l.forbiddenSince[verb] = time.Now()
		klog.FromContext(ctx).Error(err, "Access to the Lease is forbidden; retrying")
	} else if time.Since(since) >= l.forbiddenTimeout {
		l.endElection(err)
	}
}
