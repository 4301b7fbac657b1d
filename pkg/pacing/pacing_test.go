// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newOwner and newObject return objects that differ in what is given.
func newOwner(uid types.UID, generation int64) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: "owner", UID: uid, Generation: generation}
}

func newObject(name string, uid types.UID) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: name, UID: uid}
}

func verify(t *testing.T, when string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

func delay(p *Pacer, owner, object metav1.Object) time.Duration {
	paused, _ := p.When(owner, object)
	return paused.RetryAfter
}

// All tests have a fake clock: a sleep advances it, and takes no time.

func TestPauseDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
		verify(t, "has written at first", pacer.HasWritten(owner, object), false)
		for i := range 12 {
			verify(t, fmt.Sprintf("delay of write %d", i), delay(pacer, owner, object), "0s")
			pacer.Answered(owner, object, "")
			pause := min(time.Second<<i, maxPause)
			verify(t, fmt.Sprintf("pause %d", i), delay(pacer, owner, object), pause)
			time.Sleep(pause - time.Nanosecond)
			verify(t, fmt.Sprintf("just before the end of pause %d", i), delay(pacer, owner, object), "1ns")
			time.Sleep(time.Nanosecond)
		}
		verify(t, "has written", pacer.HasWritten(owner, object), true)

		pacer.Answered(owner, object, "")
		for what, other := range map[string][2]*metav1.ObjectMeta{
			"another generation":        {newOwner("owner", 2), object},
			"another owner of the name": {newOwner("new", 1), object},
			"another object":            {owner, newObject("another", "uid")},
			"a new object of the name":  {owner, newObject("name", "new")},
			"creation":                  {owner, newObject("name", "")},
		} {
			verify(t, what, delay(pacer, other[0], other[1]), "0s")
		}
	})
}

// What was rejected is known until the end of the pause, and not after a write that was accepted.
func TestRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
		rejection := func() string {
			paused, _ := pacer.When(owner, object)
			return paused.Rejection
		}
		pacer.Answered(owner, object, "denied")
		verify(t, "during the pause", rejection(), "denied")
		time.Sleep(initialPause)
		verify(t, "at its end", rejection(), "")
		pacer.Answered(owner, object, "")
		verify(t, "accepted", rejection(), "")
	})
}

// Corrections that are minutes apart cost 1 s each: once 2 s have passed after a pause in which no write had to wait, the next one starts anew.
func TestHeldResetsPause(t *testing.T) {
	for name, test := range map[string]struct {
		undone bool          // Does a write have to wait?
		after  time.Duration // the end of the pause, until the next write
		want   time.Duration // the next pause
	}{
		"held":               {false, heldDelay, initialPause},
		"undone soon after":  {false, heldDelay - 1, 2 * initialPause},
		"undone meanwhile":   {true, 0, 2 * initialPause},
		"corrected too late": {true, time.Minute, 2 * initialPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
			pacer.Answered(owner, object, "")
			if test.undone {
				verify(t, name, delay(pacer, owner, object), initialPause)
			}
			time.Sleep(initialPause + test.after)
			pacer.Answered(owner, object, "")
			verify(t, name, delay(pacer, owner, object), test.want)
		})
	}
}

func TestUntilHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
		verify(t, "never written", pacer.UntilHeld(owner, object), "0s")
		pacer.Answered(owner, newObject("name", ""), "")
		verify(t, "created", pacer.UntilHeld(owner, object), initialPause+heldDelay)
		time.Sleep(heldDelay)
		pacer.Answered(owner, object, "")
		verify(t, "changed later", pacer.UntilHeld(owner, object), initialPause+heldDelay)
		time.Sleep(initialPause + heldDelay)
		verify(t, "held", pacer.UntilHeld(owner, object), "0s")
	})
}

// Once the desired state is held, the next pause is the first, whether or not a write had to wait.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
		for _, written := range []*metav1.ObjectMeta{object, newObject("name", "")} {
			pacer.Answered(owner, written, "")
			delay(pacer, owner, written)
		}
		time.Sleep(initialPause + heldDelay)
		pacer.Reset(owner, object)
		for _, written := range []*metav1.ObjectMeta{object, newObject("name", "")} {
			verify(t, "has written", pacer.HasWritten(owner, written), false)
			pacer.Answered(owner, written, "")
			verify(t, "after a reset", delay(pacer, owner, written), initialPause)
		}
	})
}

// A status is updated twice a second, whatever the generation.
func TestStatusPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer := &Pacer{}
		verify(t, "at first", pacer.WhenStatus(newOwner("owner", 1)), "0s")
		pacer.UpdatesStatus(newOwner("owner", 1))
		verify(t, "after an update", pacer.WhenStatus(newOwner("owner", 2)), statusPause)
		verify(t, "another owner", pacer.WhenStatus(newOwner("another", 1)), "0s")
		time.Sleep(statusPause)
		verify(t, "afterwards", pacer.WhenStatus(newOwner("owner", 1)), "0s")
	})
}

func TestRunForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pacer, owner, object := &Pacer{}, newOwner("owner", 1), newObject("name", "uid")
		go pacer.Run(ctx)
		pacer.Answered(owner, object, "")
		time.Sleep(2 * maxPause)
		verify(t, "until twice the maximum", pacer.HasWritten(owner, object), true)
		time.Sleep(2 * time.Minute)
		verify(t, "afterwards", pacer.HasWritten(owner, object), false)
		cancel()
	})
}
