// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
)

var options = Options{
	LeaderElectionConfig: leaderelection.LeaderElectionConfig{
		Name: "lease", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true, // Run must not use it.
	},
	Namespace: "default", ForbiddenTimeout: time.Minute,
}

// maxRetryPeriod is the maximum time between two attempts to acquire the Lease: client-go adds a random share.
var maxRetryPeriod = time.Duration(float64(options.RetryPeriod) * (1 + leaderelection.JitterFactor))

// newTestElector returns an elector with a fake client.
func newTestElector(client *fake.Clientset, identity string) *Elector {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	return &Elector{Interface: lock, options: options, forbiddenSince: map[string]time.Time{}}
}

func getLease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(options.Namespace).Get(context.Background(), options.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// untilDone is a lead function.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// All tests with synctest have a fake clock: a sleep advances it, and takes no time.

func TestReleaseAfterLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() {
			returned <- newTestElector(client, "one").Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // The last syncs take longer than the lease duration.
				return nil
			})
		}()
		time.Sleep(time.Second) // The Lease is acquired.
		cancel()
		time.Sleep(50 * time.Second) // lead is running for 10 s more.
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "one" {
			t.Errorf("holder = %q while lead is running", holder)
		}
		if since := time.Since(getLease(t, client).Spec.RenewTime.Time); since > options.RenewDeadline {
			t.Errorf("the Lease was last renewed %s ago while lead is running", since)
		}
		if err := <-returned; err != nil {
			t.Error(err)
		}
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "" {
			t.Errorf("holder = %q after lead has returned", holder)
		}
	})
}

func TestNoReleaseAfterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, failed := fake.NewClientset(), errors.New("syncs were cancelled")
		if err := newTestElector(client, "one").Run(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("Run() = %v, want the error of lead", err)
		}
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "one" {
			t.Errorf("holder = %q although requests may still be applied", holder)
		}
	})
}

func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var leading atomic.Value
		start := func(name string) (stop func() error) {
			ctx, cancel := context.WithCancel(t.Context())
			returned := make(chan error, 1)
			go func() {
				returned <- newTestElector(client, name).Run(ctx, func(ctx context.Context) error {
					leading.Store(name)
					return untilDone(ctx)
				})
			}()
			return func() error {
				cancel()
				return <-returned
			}
		}
		stopFirst := start("first")
		time.Sleep(time.Second) // The first acquires the Lease.
		stopSecond, stopThird := start("second"), start("third")
		time.Sleep(time.Minute) // Both standbys have tried to.
		if err := stopThird(); err != nil || leading.Load() != "first" {
			t.Errorf("a stopped standby returned %v; the leader is %q", err, leading.Load())
		}
		if err := stopFirst(); err != nil {
			t.Error(err)
		}
		time.Sleep(maxRetryPeriod) // The second tries again.
		synctest.Wait()
		if leading.Load() != "second" {
			t.Errorf("the leader is %q %s after the release", leading.Load(), maxRetryPeriod)
		}
		if err := stopSecond(); err != nil {
			t.Error(err)
		}
	})
}

func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, taken := newClient()
		elector := newTestElector(client, "one")
		stuck := make(chan struct{})
		returned := make(chan error, 1)
		go func() {
			returned <- elector.Run(t.Context(), func(context.Context) error {
				<-stuck
				return nil
			})
		}()
		time.Sleep(time.Second) // The Lease is acquired.
		takeLease(t, client, taken)
		if err := <-returned; !errors.Is(err, ErrLost) {
			t.Errorf("Run() = %v, want %v", err, ErrLost)
		}
		if err := elector.release(t.Context()); err != nil {
			t.Error(err)
		}
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "two" {
			t.Errorf("holder = %q, want the new one", holder)
		}
		close(stuck)
	})
}

// newClient returns a fake client and the function that makes it respond to updates of the Lease with a conflict: it does not compare
// resourceVersions.
func newClient() (client *fake.Clientset, conflict func()) {
	client = fake.NewClientset()
	var conflicts atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return conflicts.Load(), nil, apierrors.NewConflict(coordinationv1.Resource("leases"), options.Name, errors.New("changed"))
	})
	return client, func() { conflicts.Store(true) }
}

func takeLease(t *testing.T, client *fake.Clientset, conflict func()) {
	t.Helper()
	lease := getLease(t, client)
	lease.Spec.HolderIdentity = new("two")
	if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, lease.Namespace); err != nil {
		t.Fatal(err)
	}
	conflict()
}

// A leader does not write from the first read or conflict on that shows that the Lease is not its own.
func TestDeposedLeaderStopsWriting(t *testing.T) {
	for name, depose := range map[string]func(t *testing.T, client *fake.Clientset, conflict func()){
		"taken":   takeLease,
		"cleared": func(_ *testing.T, _ *fake.Clientset, conflict func()) { conflict() },
		"deleted": func(t *testing.T, client *fake.Clientset, conflict func()) {
			leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
			if err := client.Tracker().Delete(leases, options.Namespace, options.Name); err != nil {
				t.Fatal(err)
			}
			another := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name}}
			another.Spec.HolderIdentity = new("two")
			if err := client.Tracker().Add(another); err != nil {
				t.Fatal(err)
			}
			conflict()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, conflict := newClient()
				elector := newTestElector(client, "one")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go elector.Run(ctx, untilDone)
				time.Sleep(time.Second) // The Lease is acquired.
				if !elector.leading() {
					t.Fatal("not leading")
				}
				depose(t, client, conflict)
				time.Sleep(options.RetryPeriod) // The next renewal fails, long before the renew deadline.
				synctest.Wait()
				if elector.leading() {
					t.Error("still leading after a renewal has failed")
				}
			})
		})
	}
}

func TestForbiddenLease(t *testing.T) {
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), options.Name, errors.New("no access"))
	for name, test := range map[string]struct {
		verb string
		err  error
	}{
		"get":                  {"get", forbidden},
		"create":               {"create", forbidden},
		"update":               {"update", forbidden},
		"create, no namespace": {"create", apierrors.NewNotFound(corev1.Resource("namespaces"), options.Namespace)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if test.verb == "update" {
					expired := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name}}
					if err := client.Tracker().Add(expired); err != nil {
						t.Fatal(err)
					}
				}
				client.PrependReactor(test.verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.err
				})
				start := time.Now()
				err := newTestElector(client, "one").Run(t.Context(), untilDone)
				if !errors.Is(err, test.err) || !strings.Contains(err.Error(), "-leader-elect-resource-name") {
					t.Errorf("Run() = %v, want the API server's response and the flag", err)
				}
				if took := time.Since(start); took < options.ForbiddenTimeout || took > options.ForbiddenTimeout+maxRetryPeriod {
					t.Errorf("Run() returned after %s, want %s", took, options.ForbiddenTimeout)
				}
			})
		})
	}
}

// A leader that loses the permission says so, even if that is before the renew deadline.
func TestForbiddenWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		elector := newTestElector(client, "one")
		elector.options.ForbiddenTimeout = options.RenewDeadline / 2
		forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), options.Name, errors.New("cannot update"))
		var leading atomic.Bool
		client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return leading.Load(), nil, forbidden
		})
		stuck := make(chan struct{})
		defer close(stuck)
		err := elector.Run(t.Context(), func(context.Context) error {
			leading.Store(true)
			<-stuck
			return nil
		})
		if !errors.Is(err, forbidden) {
			t.Errorf("Run() = %v, want %v", err, forbidden)
		}
	})
}

// A read that is forbidden once does not count any more after one that is not, or after a renewal, which needs no read.
func TestForbiddenReads(t *testing.T) {
	for name, succeed := range map[string]func(context.Context, *Elector){
		"renewal": func(ctx context.Context, e *Elector) {
			_ = e.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "one"}) // The fake client has no other one.
		},
		"read": func(ctx context.Context, e *Elector) { _, _, _ = e.Get(ctx) }, // There is no Lease.
	} {
		synctest.Test(t, func(t *testing.T) {
			elector := newTestElector(fake.NewClientset(), "one")
			elector.endElection = func(err error) { t.Errorf("after a %s, the election ended: %v", name, err) }
			forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), options.Name, errors.New("cannot get"))
			elector.observeForbidden(t.Context(), "get", forbidden)
			succeed(t.Context(), elector)
			time.Sleep(options.ForbiddenTimeout)
			elector.observeForbidden(t.Context(), "get", forbidden)
		})
	}
}

func TestForbiddenLeaseIsAllowedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		allowedAt := time.Now().Add(options.ForbiddenTimeout / 2)
		client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Now().Before(allowedAt), nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), options.Name, nil)
		})
		led := errors.New("led")
		if err := newTestElector(client, "one").Run(t.Context(), func(context.Context) error { return led }); !errors.Is(err, led) {
			t.Errorf("Run() = %v, want %v", err, led)
		}
	})
}

func TestGuard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	elector := newTestElector(fake.NewClientset(), "one")
	client := http.Client{Transport: elector.Guard(http.DefaultTransport)}
	now := time.Now()
	for name, test := range map[string]struct {
		renewed *time.Time
		want    bool
	}{
		"never leader":                 {nil, false},
		"leader":                       {&now, true},
		"renew deadline exceeded":      {new(now.Add(-options.RenewDeadline)), false},
		"by the wall clock only":       {new(now.Round(0).Add(-options.RenewDeadline)), false},
		"wall clock was set back":      {new(now.Round(0).Add(time.Hour)), true},
		"renewed within the deadline":  {new(now.Add(-options.RenewDeadline / 2)), true},
		"wall clock within a deadline": {new(now.Round(0).Add(-options.RenewDeadline / 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			elector.renewed.Store(test.renewed)
			if _, err := client.Get(server.URL); err != nil {
				t.Errorf("read: %v", err)
			}
			_, err := client.Post(server.URL, "text/plain", strings.NewReader("a write"))
			if (err == nil) != test.want || err != nil && !errors.Is(err, ErrNotLeading) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// The Lease is released only after the response to the last write, or left to expire.
func TestReleaseWaitsForWrites(t *testing.T) {
	for name, test := range map[string]struct {
		takes      time.Duration
		wantHolder string
	}{
		"short": {options.RenewDeadline / 2, ""},
		"long":  {2 * options.RenewDeadline, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				elector := newTestElector(client, "one")
				var responded atomic.Bool
				transport := elector.Guard(roundTripper(func(*http.Request) (*http.Response, error) {
					time.Sleep(test.takes)
					if holder := *getLease(t, client).Spec.HolderIdentity; holder != "one" {
						t.Errorf("holder = %q while a write is in flight", holder)
					}
					responded.Store(true)
					return nil, errors.New("response")
				}))
				request := httptest.NewRequest(http.MethodPost, "/", nil)
				ctx, cancel := context.WithCancel(t.Context())
				returned := make(chan error, 1)
				go func() { returned <- elector.Run(ctx, untilDone) }()
				time.Sleep(time.Second) // The Lease is acquired.
				go transport.RoundTrip(request)
				synctest.Wait()
				cancel()
				if err := <-returned; err != nil {
					t.Error(err)
				}
				if holder := *getLease(t, client).Spec.HolderIdentity; holder != test.wantHolder {
					t.Errorf("holder = %q, want %q", holder, test.wantHolder)
				}
				time.Sleep(test.takes) // The long one has a response as well.
				if _, err := transport.RoundTrip(request); !errors.Is(err, ErrNotLeading) || !responded.Load() {
					t.Errorf("a write after the end: %v", err)
				}
			})
		})
	}
}

// The Lease is renewed once every RetryPeriod, as in other components with the same flags.
func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		go newTestElector(client, "one").Run(ctx, untilDone)
		time.Sleep(time.Second) // The Lease is acquired.
		client.ClearActions()
		time.Sleep(time.Minute)
		if got, want := len(client.Actions()), int(time.Minute/options.RetryPeriod); got != want {
			t.Errorf("%d renewals in a minute, want %d", got, want)
		}
		cancel()
		synctest.Wait()
	})
}

// A process that was suspended does not know yet that another instance holds the Lease.
func TestReleaseLeavesAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		err := newTestElector(client, "one").Run(t.Context(), func(context.Context) error {
			time.Sleep(time.Second) // Between two renewals: the fake client would let one of them take the Lease back.
			takeLease(t, client, func() {})
			return nil
		})
		if holder := *getLease(t, client).Spec.HolderIdentity; err != nil || holder != "two" {
			t.Errorf("Run() = %v, holder = %q, want the new one", err, holder)
		}
	})
}

// A renewal that is cancelled when lead returns may be applied all the same. The release is tried again after the conflict.
func TestReleaseAfterCancelledRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var released, conflicts atomic.Int32
		client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			if *lease.Spec.HolderIdentity != "" || released.Add(1) > 1 {
				return false, nil, nil
			}
			conflicts.Add(1)
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), options.Name, errors.New("renewed"))
		})
		if err := newTestElector(client, "one").Run(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "" || conflicts.Load() != 1 {
			t.Errorf("holder = %q after %d conflicts, want none after 1", holder, conflicts.Load())
		}
	})
}

func TestCheck(t *testing.T) {
	elector := newTestElector(fake.NewClientset(), "one")
	now := time.Now()
	for name, test := range map[string]struct {
		renewed *time.Time
		want    bool
	}{
		"standby":               {nil, true},
		"leader":                {&now, true},
		"leader between two":    {new(now.Add(-options.RenewDeadline / 2)), true},
		"leader cannot renew":   {new(now.Add(-options.RenewDeadline * 2 / 3)), false},
		"process was suspended": {new(now.Round(0).Add(-options.RenewDeadline * 2 / 3)), false},
	} {
		elector.renewed.Store(test.renewed)
		if err := elector.Check(); (err == nil) != test.want {
			t.Errorf("%s: Check() = %v", name, err)
		}
	}
}

// No rate limit delays a renewal.
func TestNewWithRateLimit(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	elector, err := New(&rest.Config{Host: server.URL, RateLimiter: flowcontrol.NewFakeNeverRateLimiter()}, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 100 { // With client-go's default limit, they take 18 s.
		if _, _, err := elector.Get(ctx); !apierrors.IsNotFound(err) {
			t.Fatalf("Get() = %v, want the API server's response", err)
		}
	}
}

func TestNewWithInvalidAddress(t *testing.T) {
	_, err := New(&rest.Config{Host: "http://["}, options)
	if err == nil || !strings.Contains(err.Error(), "check -kubeconfig and -master") {
		t.Errorf("New() = %v, want an error that says what to check", err)
	}
}
