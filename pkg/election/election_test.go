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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var options = Options{
	Namespace: "default", Name: "lease",
	LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
}

// newElector returns an elector of that identity whose API server is client.
func newElector(client *fake.Clientset, identity string) *Elector {
	return &Elector{options: options, lock: &timedLock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}}
}

func getLease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(options.Namespace).Get(context.Background(), options.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestTheLeaseIsReleasedWhenTheWorkIsDoneAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		failed := errors.New("the work failed")
		returned := make(chan error, 1)
		go func() {
			returned <- newElector(client, "one").Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // The last syncs take longer than the lease.
				return failed
			})
		}()
		time.Sleep(time.Second) // The lease is taken.
		cancel()
		time.Sleep(50 * time.Second) // The work, which takes a minute, still goes on.
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "one" {
			t.Errorf("the holder is %q while the work goes on", holder)
		}
		if since := time.Since(getLease(t, client).Spec.RenewTime.Time); since > options.RenewDeadline {
			t.Errorf("the lease was renewed %s ago for the last time while the work goes on", since)
		}
		if err := <-returned; !errors.Is(err, failed) {
			t.Errorf("Run returned %v, want the error of the work", err)
		}
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "" {
			t.Errorf("the holder is %q after the work", holder)
		}
	})
}

func TestAStandbyTakesOverAReleasedLeaseAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		client := fake.NewClientset()
		firstCtx, endFirst := context.WithCancel(t.Context())
		secondCtx, endSecond := context.WithCancel(t.Context())
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		var leading atomic.Value
		work := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				leading.Store(name)
				<-ctx.Done()
				return nil
			}
		}
		go func() { first <- newElector(client, "first").Run(firstCtx, work("first")) }()
		time.Sleep(time.Second) // The first has the lease.
		go func() { second <- newElector(client, "second").Run(secondCtx, work("second")) }()
		thirdCtx, endThird := context.WithCancel(t.Context())
		go func() { third <- newElector(client, "third").Run(thirdCtx, work("third")) }()
		time.Sleep(time.Minute) // Both standbys have tried.
		endThird()
		if err := <-third; err != nil || leading.Load() != "first" {
			t.Errorf("a standby that is told to stop returned %v; %q leads", err, leading.Load())
		}
		endFirst()
		if err := <-first; err != nil {
			t.Error(err)
		}
		time.Sleep(options.RetryPeriod) // The second tries again.
		synctest.Wait()
		if leading.Load() != "second" {
			t.Errorf("a retry period after the release %q leads", leading.Load())
		}
		endSecond()
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

func TestALostLeaseEndsRunAtOnceAndIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		client := fake.NewClientset()
		var taken atomic.Bool
		client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return taken.Load(), nil, errors.New("conflict") // The fake does not compare resource versions by itself.
		})
		elector := newElector(client, "one")
		stuck := make(chan struct{})
		returned := make(chan error, 1)
		go func() {
			returned <- elector.Run(t.Context(), func(context.Context) error {
				<-stuck
				return nil
			})
		}()
		time.Sleep(time.Second) // The lease is taken.
		lease := getLease(t, client)
		lease.Spec.HolderIdentity = new("two")
		if _, err := client.CoordinationV1().Leases(options.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		taken.Store(true)
		if err := <-returned; !errors.Is(err, ErrLost) {
			t.Errorf("Run returned %v, want %v", err, ErrLost)
		}
		if elector.Leading() {
			t.Error("it thinks that it still leads")
		}
		elector.release(t.Context())
		if holder := *getLease(t, client).Spec.HolderIdentity; holder != "two" {
			t.Errorf("the holder is %q, want the next one", holder)
		}
		close(stuck)
	})
}

func TestWritesAreGuarded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	elector := newElector(fake.NewClientset(), "one")
	client := http.Client{Transport: elector.Guard(http.DefaultTransport)}
	for name, test := range map[string]struct {
		renewed time.Time
		want    bool
	}{
		"an instance that never held the lease may not write":           {time.Time{}, false},
		"the holder of the lease may write":                             {time.Now(), true},
		"one that cannot be sure that it holds the lease may not write": {time.Now().Add(-options.RenewDeadline), false},
	} {
		t.Run(name, func(t *testing.T) {
			elector.lock.renewed = test.renewed
			if _, err := client.Get(server.URL); err != nil {
				t.Errorf("a read is refused: %v", err)
			}
			_, err := client.Post(server.URL, "text/plain", strings.NewReader("a write"))
			if (err == nil) != test.want || err != nil && !errors.Is(err, ErrNotLeading) {
				t.Errorf("a write is answered with %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	elector := newElector(fake.NewClientset(), "one")
	for name, test := range map[string]struct {
		renewed time.Time
		want    bool
	}{
		"a standby is well":                        {time.Time{}, true},
		"a leader that renews is well":             {time.Now(), true},
		"a leader that does not renew is not well": {time.Now().Add(-options.RenewDeadline * 2 / 3), false},
	} {
		elector.lock.renewed = test.renewed
		if err := elector.Check(nil); (err == nil) != test.want {
			t.Errorf("%s: Check() = %v", name, err)
		}
	}
}
