// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

func probeConflict(w *walk) {
	w.withoutResync(NoResync, func() bool {
		refs := w.owned()
		if len(refs) == 0 {
			return false
		}
		w.tell(user, "the next write conflicts")
		w.failNext(1, apierrors.NewConflict(refs[0].GroupResource, refs[0].Name, errors.New("injected")), w.writesTheirs)
		w.changeOwned(refs[0])
		return true
	})
}

func probeStatus(w *walk) {
	w.withoutResync(NoResync, func() bool {
		what := w.addRule("no status can be written", 5*time.Second, rejecting(func(*apiserver.Request) error { return errInjected },
			func(r *apiserver.Request) bool {
				return w.isUsers(r.Resource) && r.IsWrite() && r.Subresource == "status"
			}))
		_, deleted := w.deleteTheirs(what)
		return deleted
	})
}

// probeLostLease takes the Lease away for so short a time that a process may go on, while others change something.
func probeLostLease(w *walk) {
	w.withoutResync(NoResync, func() bool {
		refs := w.owned()
		if len(refs) == 0 {
			return false
		}
		w.lock.Lock()
		w.calmSince = time.Now() // The process may also end.
		w.lock.Unlock()
		lost := w.handLeaseOver()
		if lost == "" {
			return false
		}
		w.tell(user, lost)
		w.sleep(2 * time.Second)
		for range 20 {
			w.changeOwned(refs[0])
			w.sleep(200 * time.Millisecond)
		}
		w.tell(user, w.clearLease())
		return true
	})
}

// endTime is how long a process that was terminated may take to end: some more than the grace period that Pods have by default.
const endTime = 40 * time.Second

// probeRefusedLists terminates the instances while their watches cannot begin. A Reflector of client-go sleeps in its backoff, whatever
// happens: a process does not wait for that.
func probeRefusedLists(w *walk) {
	w.tell(user, w.addRule("lists are refused", forever, rejecting(
		func(*apiserver.Request) error { return apierrors.NewTooManyRequests("injected", 0) },
		func(r *apiserver.Request) bool { return r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true" })))
	w.server.Compact()
	var terminated []*instance
	for n := range w.Instances {
		i := w.current(n)
		i.CutWatches(apiserver.AllResources, 0)
		terminated = append(terminated, i)
	}
	w.sleep(5 * time.Minute)
	w.lock.Lock()
	w.calmSince = time.Time{} // A program that lists when it starts may end with the error.
	w.lock.Unlock()
	for _, i := range terminated {
		w.tell(user, i.terminate())
	}
	w.sleep(endTime)
	for n, i := range terminated {
		if w.current(n) == i {
			w.violated(Terminates, "%s was terminated %s ago, and has not ended", i.name, endTime)
		}
	}
	w.server.ClearRules()
	w.lock.Lock()
	w.calmSince = time.Now()
	w.lock.Unlock()
}

// probeRefusedWrites judges what becomes of an hour in which what the program writes is refused, while others write at their speed.
func probeRefusedWrites(w *walk) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	ref, interval := refs[0], 20*time.Second
	w.refuseChanges(ref)
	w.changeOwned(ref)
	w.tell(user, fmt.Sprintf("annotates %s every %s", ref, interval))
	since := time.Now()
	for n := 0; time.Since(since) < probeTime && !w.isBroken(Pace) && !w.isEnded(); n++ {
		w.change(ref, func(o *object) string { return annotate(o, n) })
		w.sleep(interval)
		w.judgeHour(since, func(r *request) bool { return r.ref == ref }, "although each is refused")
	}
	w.server.ClearRules()
}
