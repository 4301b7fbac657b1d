// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package election runs client-go's leader election, and sends no write once another instance may lead.
// It is no fence: a write that was sent in time may reach the API server after another one has taken over.
package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

var (
	// ErrLost means that the Lease was not renewed in time. The process has to exit: another one may lead.
	ErrLost = errors.New("leader election lost: another instance may be the leader now")
	// ErrNotLeading is the error of a write by an instance that is not the leader.
	ErrNotLeading = errors.New("this instance does not hold the leader election Lease")
)

// Options are the parameters of an election.
type Options struct {
	// Name is that of the Lease. Run sets the lock, the callbacks and ReleaseOnCancel.
	leaderelection.LeaderElectionConfig
	Namespace string // Of the Lease.
	// ForbiddenTimeout is how long access to the Lease may be forbidden before Run returns an error.
	ForbiddenTimeout time.Duration
}

// Elector takes part in an election. It is the lock itself: Get, Create and Update observe in the responses
// of the API server whether this instance holds the Lease.
type Elector struct {
	resourcelock.Interface
	options Options
	// renewed is when the last renewal was sent, or nil if the Lease is not held. Standbys count from later.
	renewed  atomic.Pointer[time.Time]
	inFlight atomic.Int64 // Writes to which the API server has not responded.
	// forbiddenSince maps a verb to when it became forbidden. After ForbiddenTimeout, endElection is called.
	forbiddenSince map[string]time.Time
	endElection    context.CancelCauseFunc
}

// New returns an elector with a client of its own, without a rate limit, which would delay renewals.
func New(config *rest.Config, options Options) (*Elector, error) {
	hostname, _ := os.Hostname() // The identity is unique without it, too.
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.QPS, config.RateLimiter = -1, nil
	config.Timeout = options.RenewDeadline / 2 // A second attempt has to fit in.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the client of the election cannot be built; check -kubeconfig and -master: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
	}
	return &Elector{Interface: lock, options: options, forbiddenSince: map[string]time.Time{}}, nil
}

// Run acquires the Lease, calls lead with ctx, and releases the Lease once lead has returned. If lead returns
// an error, so does Run, and the Lease is left to expire. If ctx is done before the Lease is acquired, Run
// returns nil. If the Lease is lost it returns ErrLost while lead is running: the process has to exit.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	started, stopped := make(chan struct{}), make(chan struct{})
	config := e.options.LeaderElectionConfig
	config.Lock = e
	config.ReleaseOnCancel = false // release compares the holder first.
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) { close(started) },
		OnStoppedLeading: func() { close(stopped) },
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return err
	}
	// The election outlives ctx: the Lease is renewed until lead has returned.
	electionCtx, endElection := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endElection(nil)
	e.endElection = endElection
	go elector.Run(electionCtx)

	var leadErr error
	select {
	case <-ctx.Done():
	case <-electionCtx.Done():
		return context.Cause(electionCtx)
	case <-started:
		led := make(chan error, 1)
		go func() { led <- lead(ctx) }()
		select {
		case leadErr = <-led:
		case <-stopped:
			return cmp.Or(context.Cause(electionCtx), ErrLost)
		}
	}
	endElection(nil)
	<-stopped
	if leadErr != nil {
		return leadErr // Requests that were cancelled may still be applied: the Lease has to expire.
	}
	if err := e.release(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to release the Lease; it has to expire", "lease", e.Describe())
	}
	return nil
}

// release waits for the writes in flight and then releases the Lease if this instance holds it. That of
// client-go does not compare the holder: a process that was suspended would take the Lease from a new one.
func (e *Elector) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.RenewDeadline)
	defer cancel()
	if e.renewed.Swap(nil) == nil { // From now on writes fail.
		return nil // This instance does not hold the Lease, as far as it knows.
	}
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return e.inFlight.Load() == 0, nil
	})
	if err != nil {
		return fmt.Errorf("a write is still in flight: %w", err)
	}
	// A renewal that was cancelled may have been applied, and cause a conflict.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record, _, err := e.Get(ctx)
		if err != nil || record.HolderIdentity != e.Identity() {
			return err
		}
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		return e.Update(ctx, *record)
	})
}

// leading reports whether this instance can be sure that it holds the Lease.
func (e *Elector) leading() bool {
	renewed := e.renewed.Load()
	return renewed != nil && elapsed(*renewed) < e.options.RenewDeadline
}

// Check returns an error if this instance is the leader and has not renewed the Lease for longer than halfway
// from RetryPeriod to RenewDeadline.
func (e *Elector) Check() error {
	renewed := e.renewed.Load()
	if renewed != nil && elapsed(*renewed) > (e.options.RetryPeriod+e.options.RenewDeadline)/2 {
		return fmt.Errorf("the Lease was last renewed %s ago", elapsed(*renewed).Round(time.Millisecond))
	}
	return nil
}

// elapsed returns the time since then by the clock that shows more: while the machine is suspended the
// monotonic clock stands still, and the wall clock may be set back.
func elapsed(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Guard wraps a transport so that writes fail with ErrNotLeading unless this instance is the leader.
func (e *Elector) Guard(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet {
			return transport.RoundTrip(request)
		}
		e.inFlight.Add(1)
		defer e.inFlight.Add(-1)
		if !e.leading() {
			if request.Body != nil {
				request.Body.Close()
			}
			return nil, ErrNotLeading
		}
		return transport.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (e *Elector) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := e.Interface.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != e.Identity() {
		e.renewed.Store(nil)
	}
	e.observeForbidden(ctx, "get", err)
	return record, raw, err
}

func (e *Elector) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return e.responded(ctx, "create", record.HolderIdentity, time.Now(), e.Interface.Create(ctx, record))
}

func (e *Elector) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return e.responded(ctx, "update", record.HolderIdentity, time.Now(), e.Interface.Update(ctx, record))
}

// responded observes the response to a request that was not sent before the given time.
func (e *Elector) responded(ctx context.Context, verb, holder string, sent time.Time, err error) error {
	e.observeForbidden(ctx, verb, err)
	switch {
	case err == nil && holder == e.Identity():
		e.renewed.Store(&sent)
		clear(e.forbiddenSince) // While the Lease is held, it need not be read.
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		e.renewed.Store(nil) // The Lease was released, or another client has written or deleted it.
	}
	return err
}

// observeForbidden logs that a verb is forbidden or the namespace missing. If that lasts, the election ends.
func (e *Elector) observeForbidden(ctx context.Context, verb string, err error) {
	noNamespace := verb == "create" && apierrors.IsNotFound(err)
	if !apierrors.IsForbidden(err) && !noNamespace {
		delete(e.forbiddenSince, verb)
		return
	}
	err = fmt.Errorf("the Lease of the leader election cannot be used; "+
		"grant the verb and resource named here with RBAC, create the namespace, or use another Lease with "+
		"-leader-elect-resource-name and -leader-elect-resource-namespace: %w", err)
	since, ok := e.forbiddenSince[verb]
	if !ok {
		e.forbiddenSince[verb] = time.Now()
		klog.FromContext(ctx).Error(err, "Cannot access the Lease; retrying")
	} else if time.Since(since) >= e.options.ForbiddenTimeout {
		e.endElection(err)
	}
}
