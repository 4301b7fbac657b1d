// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// manyObjects is how many objects a program finds when it starts.
const manyObjects = 200

// lastOfMany is the number of the one that comes last in a list.
const lastOfMany = 99

// probeMany judges whether a change of one object waits for many others.
func probeMany(w *walk) {
	for n := range w.Instances {
		w.current(n).stop(true)
	}
	w.tell(user, fmt.Sprintf("creates %d objects while no instance runs; each request takes 200ms", manyObjects))
	for n := range manyObjects {
		w.create(w.newMany(n))
	}
	w.delayRequests(200*time.Millisecond, func(*apiserver.Request) bool { return true })
	since := time.Now()
	isMany := func(r *request) bool { return r.IsWrite() && strings.HasPrefix(r.ref.Name, manyPrefix) }
	for len(w.requested(since, isMany)) == 0 {
		if time.Since(since) > w.orElection(convergenceTimeout) || w.isEnded() {
			return
		}
		w.sleep(100 * time.Millisecond)
	}
	since = time.Now()
	ref, _ := w.deleteTheirs("the others wait")
	changed, created := w.changeSpec(w.newMany(lastOfMany), 1), w.newMany(manyObjects)
	w.create(created)
	w.tell(user, "creates "+describe(created))
	w.sleep(10 * time.Second)
	done := len(w.requested(since, isMany))
	w.sleep(5 * time.Minute)
	for _, is := range []func(r *request) bool{
		func(r *request) bool { return r.IsWrite() && r.ref == ref }, func(r *request) bool { return r.IsWrite() && r.about == changed },
		func(r *request) bool { return r.IsWrite() && r.about == w.referenceTo(created).String() },
	} {
		if made := w.requested(since, is); done > 10 && len(made) > 0 && made[0].Sent.Sub(since) > 10*time.Second {
			w.violated(NotLast, "%s of %s comes after %s, behind %d objects", made[0], made[0].Client, made[0].Sent.Sub(since), manyObjects)
		}
	}
}

// probeRetryAfter judges whether a change waits until the requests for other objects are to be sent again.
func probeRetryAfter(w *walk) {
	refs := w.owned()
	if len(refs) == 0 || w.controllerOf(refs[0]) == nil {
		return
	}
	one, owner := refs[0], w.controllerOf(refs[0])
	others := slices.DeleteFunc(refs, func(ref reference) bool {
		other := w.controllerOf(ref)
		return other == nil || other.GetUID() == owner.GetUID()
	})
	later := func(*apiserver.Request) error { return apierrors.NewTooManyRequests("injected", 120) }
	w.tell(user, w.addRule("writes of what others own are to be sent again after 2m", forever, rejecting(later, func(r *apiserver.Request) bool {
		return r.IsWrite() && slices.Contains(others, reference{r.Resource, r.Key()})
	})))
	for _, ref := range others {
		w.tell(user, w.delete(ref, metav1.DeletePropagationBackground))
	}
	w.sleep(10 * time.Second)
	since := time.Now()
	w.tell(user, w.delete(one, metav1.DeletePropagationBackground))
	w.sleep(time.Minute)
	w.server.ClearRules()
	w.sleep(5 * time.Minute) // All are sent again.
	made := w.requested(since, func(r *request) bool { return r.IsWrite() && r.ref == one })
	if len(made) > 0 && made[0].Sent.Sub(since) > 10*time.Second {
		w.violated(FreeWorkers, "%s of %s comes after %s, when requests for %d other objects are sent again", made[0], made[0].Client,
			made[0].Sent.Sub(since), len(others))
	}
}

const manyPrefix = "many-"

// newMany returns one of many objects of a kind, with names of its own.
func (w *walk) newMany(n int) *object {
	k := w.kinds[0]
	o := k.newObject(fmt.Sprint(manyPrefix, n), metav1.NamespaceDefault, n, 0)
	for _, l := range k.leaves {
		if k.isName(l) {
			setField(o, o.GetName(), l.path...)
		}
	}
	return o
}
