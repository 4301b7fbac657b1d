// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

func keyOf(owner, object *metav1.ObjectMeta) key {
	return key{owner.UID, object.UID, appsv1.Resource("deployments"), object.Name, owner.Generation}
}

func delay(p *pacer, owner, object *metav1.ObjectMeta) time.Duration {
	last, _ := p.when(keyOf(owner, object))
	return last.remaining()
}

// All tests have a fake clock: a sleep advances it, and takes no time.

func TestPauseDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
		verify(t, "has written at first", p.hasWritten(owner.UID, appsv1.Resource("deployments")), false)
		for i := range 12 {
			verify(t, fmt.Sprintf("delay of write %d", i), delay(p, owner, object), "0s")
			p.answered(keyOf(owner, object), "")
			pause := min(time.Second<<i, maxPause)
			verify(t, fmt.Sprintf("pause %d", i), delay(p, owner, object), pause)
			time.Sleep(pause - time.Nanosecond)
			verify(t, fmt.Sprintf("just before the end of pause %d", i), delay(p, owner, object), "1ns")
			time.Sleep(time.Nanosecond)
		}
		verify(t, "has written", p.hasWritten(owner.UID, appsv1.Resource("deployments")), true)

		p.answered(keyOf(owner, object), "")
		for what, other := range map[string][2]*metav1.ObjectMeta{
			"another generation":        {newOwner("owner", 2), object},
			"another owner of the name": {newOwner("new", 1), object},
			"another object":            {owner, newObject("another", "uid")},
			"a new object of the name":  {owner, newObject("name", "new")},
			"creation":                  {owner, newObject("name", "")},
		} {
			verify(t, what, delay(p, other[0], other[1]), "0s")
		}
		another := keyOf(owner, object)
		another.resource = appsv1.Resource("statefulsets")
		verify(t, "another resource", p.last(another).remaining(), "0s")
	})
}

// What was rejected is known until the end of the pause, and not after a write that was accepted.
func TestRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
		rejection := func() string {
			last, _ := p.when(keyOf(owner, object))
			return last.rejection
		}
		p.answered(keyOf(owner, object), "denied")
		verify(t, "during the pause", rejection(), "denied")
		time.Sleep(initialPause)
		verify(t, "at its end", rejection(), "")
		p.answered(keyOf(owner, object), "")
		verify(t, "accepted", rejection(), "")
	})
}

// Corrections that are minutes apart cost 1 s each: once 2 s have passed after a pause in which no write had to wait, the next one starts anew.
func TestHeldResetsPause(t *testing.T) {
	for name, test := range map[string]struct {
		undone bool          // Does a write have to wait?
		redone bool          // Do others restore the desired state meanwhile?
		after  time.Duration // the end of the pause, until the next write
		want   time.Duration // the next pause
	}{
		"held":                  {false, false, heldDelay, initialPause},
		"undone soon after":     {false, false, heldDelay - 1, 2 * initialPause},
		"undone meanwhile":      {true, false, 0, 2 * initialPause},
		"corrected too late":    {true, false, time.Minute, 2 * initialPause},
		"redone meanwhile":      {true, true, heldDelay, initialPause},
		"undone soon once more": {true, true, heldDelay - 1, 2 * initialPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
			p.answered(keyOf(owner, object), "")
			if test.undone {
				verify(t, name, delay(p, owner, object), initialPause)
			}
			if test.redone {
				p.found(keyOf(owner, object))
			}
			time.Sleep(initialPause + test.after)
			p.answered(keyOf(owner, object), "")
			verify(t, name, delay(p, owner, object), test.want)
		})
	}
}

func TestFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
		verify(t, "never written", p.found(keyOf(owner, object)), "0s")
		p.answered(keyOf(owner, newObject("name", "")), "")
		verify(t, "created", p.found(keyOf(owner, object)), initialPause+heldDelay)
		time.Sleep(heldDelay)
		p.answered(keyOf(owner, object), "")
		verify(t, "changed later", p.found(keyOf(owner, object)), initialPause+heldDelay)
		time.Sleep(initialPause + heldDelay)
		verify(t, "held", p.found(keyOf(owner, object)), "0s")
	})
}

// Once the desired state is held, the next pause is the first, whether or not a write had to wait.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
		for _, written := range []*metav1.ObjectMeta{object, newObject("name", "")} {
			p.answered(keyOf(owner, written), "")
			delay(p, owner, written)
		}
		time.Sleep(initialPause + heldDelay)
		p.found(keyOf(owner, object))
		for _, written := range []*metav1.ObjectMeta{object, newObject("name", "")} {
			p.answered(keyOf(owner, written), "")
			verify(t, "after a reset", delay(p, owner, written), initialPause)
		}
	})
}

// What was written is known whatever the name, the generation and resets, but not of another owner or resource.
func TestHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "")
		p.answered(keyOf(owner, object), "quota")
		verify(t, "after a rejection", p.hasWritten(owner.UID, appsv1.Resource("deployments")), false)
		p.answered(keyOf(owner, object), "")
		p.found(keyOf(owner, object))
		verify(t, "after a reset", p.hasWritten(owner.UID, appsv1.Resource("deployments")), true)
		verify(t, "another resource", p.hasWritten(owner.UID, appsv1.Resource("replicasets")), false)
		verify(t, "another owner", p.hasWritten("new", appsv1.Resource("deployments")), false)
	})
}

// A status is updated at most twice a second.
func TestStatusIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{}
		for i := range 3 {
			verify(t, fmt.Sprintf("update %d", i), p.mayUpdateStatus("owner"), true)
			time.Sleep(statusPause - time.Nanosecond)
			verify(t, "another owner", p.mayUpdateStatus(types.UID(fmt.Sprint(i))), true)
			verify(t, "too early", p.mayUpdateStatus("owner"), false)
			time.Sleep(time.Nanosecond)
		}
	})
}

func TestRunForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, owner, object := &pacer{}, newOwner("owner", 1), newObject("name", "uid")
		go p.run(ctx)
		p.answered(keyOf(owner, object), "")
		time.Sleep(2 * maxPause)
		verify(t, "until twice the maximum", p.hasWritten(owner.UID, appsv1.Resource("deployments")), true)
		time.Sleep(2 * time.Minute)
		verify(t, "afterwards", p.hasWritten(owner.UID, appsv1.Resource("deployments")), false)
		cancel()
	})
}
