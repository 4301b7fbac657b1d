// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package election lets one of several instances do the work: the holder of a Lease.
package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

var (
	// ErrLost says that the Lease could not be renewed in time. Another instance may hold it by now: the process has to end.
	ErrLost = errors.New("the leader lease was lost; another instance may lead now")
	// ErrNotLeading is what a guarded client answers to a write by an instance that does not hold the Lease.
	ErrNotLeading = errors.New("this instance does not hold the leader lease")
)

// Options say which Lease the instances share, and how long they wait for each other.
type Options struct {
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// LeaseDuration is how long the others wait, since the last renewal that they saw, before they take over. It must be
	// whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew the Lease before it gives up. It must be less than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is how long everyone waits at most between two tries. It must be less than RenewDeadline.
	RetryPeriod time.Duration
}

// Validate returns an error that says which duration is impossible.
func (o Options) Validate() error {
	switch {
	case o.LeaseDuration < time.Second || o.LeaseDuration%time.Second != 0:
		return fmt.Errorf("the lease duration must be a number of whole seconds, as the Lease has it, not %s", o.LeaseDuration)
	case o.RenewDeadline >= o.LeaseDuration:
		return fmt.Errorf("the renew deadline (%s) must be shorter than the lease duration (%s)", o.RenewDeadline, o.LeaseDuration)
	case o.RetryPeriod <= 0:
		return fmt.Errorf("the retry period must be more than 0, not %s", o.RetryPeriod)
	case o.RetryPeriod >= o.RenewDeadline:
		return fmt.Errorf("the retry period (%s) must be shorter than the renew deadline (%s)", o.RetryPeriod, o.RenewDeadline)
	}
	return nil
}

// Elector takes part in an election.
type Elector struct {
	options Options
	lock    *timedLock
}

// New returns an elector that reaches the API server as config says, but with connections and without limits of its own, so
// that nothing that the program does can delay a renewal.
func New(config *rest.Config, options Options) (*Elector, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this host, for the leader lease: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	identity := resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.Namespace, options.Name, identity,
		config, options.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("the leader lease: %w", err)
	}
	return &Elector{options: options, lock: &timedLock{Interface: lock}}, nil
}

// Run waits for the Lease and then calls lead with ctx. It releases the Lease when lead has returned, never before, and
// returns its error. If ctx ends while another instance leads, Run returns nil without having called lead. If the Lease is
// lost it returns ErrLost at once, while lead is still running: the caller has to end the process.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	started, stopped := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          e.lock,
		LeaseDuration: e.options.LeaseDuration,
		RenewDeadline: e.options.RenewDeadline,
		// client-go adds a random share of it, up to this factor.
		RetryPeriod: time.Duration(float64(e.options.RetryPeriod) / (1 + leaderelection.JitterFactor)),
		Name:        e.options.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() { close(stopped) },
		},
	})
	if err != nil {
		return err
	}
	// The election outlives ctx: the Lease is renewed until the work is done.
	electionCtx, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	go elector.Run(electionCtx)

	var leadErr error
	select {
	case <-ctx.Done():
	case <-started:
		led := make(chan error, 1)
		go func() { led <- lead(ctx) }()
		select {
		case leadErr = <-led:
		case <-stopped:
			return ErrLost
		}
	}
	endElection()
	<-stopped
	e.release(ctx)
	return leadErr
}

// release gives the Lease up if this instance holds it, so that another one need not wait until it expires. client-go's own
// release does not compare the holder with what it reads, and so would take the Lease from its new holder if this process
// had been frozen for long enough.
func (e *Elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.RetryPeriod)
	defer cancel()
	record, _, err := e.lock.Get(ctx)
	if err == nil && record.HolderIdentity == e.lock.Identity() {
		err = e.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions:    record.LeaderTransitions,
			LeaseDurationSeconds: 1,
			AcquireTime:          record.AcquireTime,
			RenewTime:            record.RenewTime,
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The leader lease was not released; others wait until it expires", "lease", e.lock.Describe())
	}
}

// Leading reports whether this instance holds the Lease, and can be sure of it: others wait longer than RenewDeadline.
func (e *Elector) Leading() bool {
	renewed := e.lock.lastRenewal()
	return !renewed.IsZero() && time.Since(renewed) < e.options.RenewDeadline
}

// Check returns an error if this instance holds the Lease and is about to lose it, because half of RenewDeadline has passed
// without a renewal.
func (e *Elector) Check(*http.Request) error {
	renewed := e.lock.lastRenewal()
	if since := time.Since(renewed); !renewed.IsZero() && since > e.options.RenewDeadline/2 {
		return fmt.Errorf("the leader lease was renewed %s ago for the last time", since.Round(time.Millisecond))
	}
	return nil
}

// Guard wraps the transport of a client so that writes are refused with ErrNotLeading unless this instance leads. That
// makes sure that a process that was frozen past the end of its Lease does not go on with what it was about to write.
func (e *Elector) Guard(transport http.RoundTripper) http.RoundTripper {
	return guard{elector: e, transport: transport}
}

type guard struct {
	elector   *Elector
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && !g.elector.Leading() {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, ErrNotLeading
	}
	return g.transport.RoundTrip(request)
}

// timedLock is a lock that remembers when the last successful renewal was sent. The others count from a later time.
type timedLock struct {
	resourcelock.Interface

	mutex   sync.Mutex
	renewed time.Time
}

// Create implements resourcelock.Interface.
func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return l.note(sent, record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return l.note(sent, record, l.Interface.Update(ctx, record))
}

func (l *timedLock) note(sent time.Time, record resourcelock.LeaderElectionRecord, err error) error {
	if err != nil {
		return err
	}
	if record.HolderIdentity != l.Identity() {
		sent = time.Time{} // It was given up.
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.renewed = sent
	return nil
}

func (l *timedLock) lastRenewal() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.renewed
}
