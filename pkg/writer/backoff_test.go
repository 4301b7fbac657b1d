// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

func newFoo(generation int64) *samplev1alpha1.Foo {
	return &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo", UID: "uid", Generation: generation}}
}

func TestBackoff(t *testing.T) {
	rejection := errors.New("denied")
	synctest.Test(t, func(t *testing.T) { // The clock is fake: a sleep advances it, and takes no time.
		w, foo := New(nil, nil, nil, "", nil), newFoo(1)
		for _, step := range []struct {
			name      string
			do        func()
			inBackoff bool
			delay     time.Duration
			rejection error
		}{
			{"never written", func() {}, false, overrideDelay, nil},
			{"rejected", func() { w.patches.Start(foo, rejection) }, true, time.Second, rejection},
			{"reset while it runs", func() { w.ResetBackoff(foo) }, true, time.Second, rejection},
			{"just before its end", func() { time.Sleep(time.Second - time.Nanosecond) }, true, time.Second, rejection},
			{"at its end", func() { time.Sleep(time.Nanosecond) }, false, overrideDelay, rejection},
			{"rejected again", func() { w.patches.Start(foo, rejection) }, true, 2 * time.Second, rejection},
			{"accepted", func() { w.patches.Start(foo, nil) }, true, time.Second, nil},
			{"repeated", func() { w.patches.Start(foo, nil) }, true, 2 * time.Second, nil},
			{"another kind of write", func() { w.deletions.Start(foo, nil) }, true, time.Second, nil},
			{"end of the shorter one", func() { time.Sleep(time.Second) }, true, 2 * time.Second, nil},
			{"reset after its end", func() {
				w.patches.Start(foo, rejection)
				time.Sleep(4 * time.Second)
				w.ResetBackoff(foo)
				w.StartBackoff(foo)
			}, true, time.Second, nil},
			{"of the earlier spec", func() { foo = newFoo(2) }, false, overrideDelay, nil},
		} {
			step.do()
			if got := w.IsInBackoff(foo); got != step.inBackoff {
				t.Errorf("%s: IsInBackoff() = %v, want %v", step.name, got, step.inBackoff)
			}
			if got := w.RetryAfter(foo); got != step.delay {
				t.Errorf("%s: RetryAfter() = %s, want %s", step.name, got, step.delay)
			}
			if got := w.patches.LastRejection(foo); got != step.rejection {
				t.Errorf("%s: LastRejection() = %v, want %v", step.name, got, step.rejection)
			}
		}
	})
}

func TestLastOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, foo := New(nil, nil, nil, "", nil), newFoo(1)
		foo.Status = foostatus.New(foo, nil, &foostatus.StalledError{Reason: foostatus.DeploymentOverridden, Message: "message"})
		w.StartBackoff(foo)
		time.Sleep(time.Second + overrideDelay - time.Nanosecond)
		if err := w.LastOverride(foo); err == nil || err.Error() != "message" {
			t.Errorf("LastOverride() = %v, want what the status reports", err)
		}
		time.Sleep(time.Nanosecond)
		if err := w.LastOverride(foo); err != nil {
			t.Errorf("LastOverride() = %v after the Deployment has stayed in its desired state", err)
		}
	})
}

func TestForget(t *testing.T) {
	w, foo := New(nil, nil, nil, "", nil), newFoo(1)
	w.creations.Start(foo, errors.New("denied"))
	stored := newFoo(1)
	stored.Status.AvailableReplicas = 1
	w.unstored.Store(cache.MetaObjectToName(foo), stored)
	if got := w.WithWrittenStatus(foo).Status.AvailableReplicas; got != 1 {
		t.Errorf("WithWrittenStatus() has %d available replicas, want what was written", got)
	}
	w.Forget(cache.MetaObjectToName(foo))
	if rejection := w.creations.LastRejection(foo); rejection != nil {
		t.Errorf("LastRejection() = %v", rejection)
	}
	if w.WithWrittenStatus(foo) != foo {
		t.Error("WithWrittenStatus() does not return the given Foo")
	}
}
