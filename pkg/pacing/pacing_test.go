// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

const name = "example-deployment"

// newFoo returns a Foo whose status reports that its Deployment is overridden.
func newFoo() *samplev1alpha1.Foo {
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo", UID: "uid", Generation: 1},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: name},
	}
	foo.Status = foostatus.New(foo, nil, &foostatus.StalledError{Reason: foostatus.DeploymentOverridden, Message: "message"})
	return foo
}

// newPacer returns a Pacer, and the delays after which it enqueues.
func newPacer() (*Pacer, *[]time.Duration) {
	delays := &[]time.Duration{}
	return New(func(_ cache.ObjectName, delay time.Duration) { *delays = append(*delays, delay) }), delays
}

func verify(t *testing.T, when string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

// All tests have a fake clock: a sleep advances it, and takes no time.

func TestMayWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, foo := t.Context(), newFoo()
		pacer, delays := newPacer()
		verify(t, "has written at first", pacer.HasWritten(foo, name), false)
		for i := range 12 {
			verify(t, fmt.Sprintf("write %d", i), pacer.MayWrite(ctx, foo, name), true)
			pacer.Answered(ctx, foo, name)
			pause := min(time.Second<<i, maxPause)
			time.Sleep(pause - time.Nanosecond)
			verify(t, fmt.Sprintf("just before the end of pause %d", i), pacer.MayWrite(ctx, foo, name), false)
			time.Sleep(time.Nanosecond)
			if want := []time.Duration{pause, pause + overrideDelay}; !slices.Equal(*delays, want) {
				t.Errorf("enqueued after %v, want %v", *delays, want)
			}
			*delays = nil
		}
		verify(t, "has written", pacer.HasWritten(foo, name), true)

		pacer.Answered(ctx, foo, name)
		renewed := newFoo()
		renewed.Generation++
		verify(t, "another generation", pacer.MayWrite(ctx, renewed, name), true)
		renewed = newFoo()
		renewed.UID = "new-uid"
		verify(t, "another Foo of the name", pacer.MayWrite(ctx, renewed, name), true)
		verify(t, "another Deployment", pacer.MayWrite(ctx, foo, "superseded"), true)
	})
}

// Corrections that are minutes apart cost 1 s each: the sync 2 s after a pause resets it. The syncs before, however many, add none.
func TestHeldResetsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, foo := t.Context(), newFoo()
		pacer, delays := newPacer()
		for range 10 {
			pacer.Answered(ctx, foo, name)
			verify(t, "during the pause", pacer.StillOverridden(foo), "message")
			time.Sleep(initialPause) // What was enqueued is synced.
			verify(t, "at its end", pacer.StillOverridden(foo), "message")
			time.Sleep(overrideDelay - time.Nanosecond)
			verify(t, "soon after", pacer.StillOverridden(foo), "message")
			time.Sleep(time.Nanosecond)
			verify(t, "held", pacer.StillOverridden(foo), "<nil>")
			verify(t, "has written", pacer.HasWritten(foo, name), false)
			if want := []time.Duration{initialPause, initialPause + overrideDelay}; !slices.Equal(*delays, want) {
				t.Errorf("enqueued after %v, want %v", *delays, want)
			}
			*delays = nil
		}
	})
}

func TestNothingReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, _ := newPacer()
		foo := newFoo()
		foo.Status = samplev1alpha1.FooStatus{}
		pacer.Answered(t.Context(), foo, name)
		verify(t, "during the pause", pacer.StillOverridden(foo), "<nil>")
	})
}

func TestRunForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pacer, _ := newPacer()
		go pacer.Run(ctx)
		pacer.Answered(ctx, newFoo(), name)
		time.Sleep(2 * maxPause)
		verify(t, "until twice the maximum", pacer.HasWritten(newFoo(), name), true)
		time.Sleep(2 * time.Minute)
		verify(t, "afterwards", pacer.HasWritten(newFoo(), name), false)
		cancel()
	})
}
