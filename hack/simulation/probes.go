// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// probe makes one certain thing happen, once all is reconciled and compared: what it causes would hide what the comparison shows.
type probe struct {
	name    string
	promise Promise // It is not tried if the program does not make this promise.
	try     func(w *walk)
}

var (
	// shortProbes take minutes, and longProbes hours or many objects. Each walk has a short one.
	shortProbes = []probe{
		{"a deletion that no watch sees", NoResync, probeMissedEvent},
		{"writes that fail for a second", NoResync, probeFailedWrite},
		{"an error after a success", FreshDelay, probeFreshDelay},
		{"changes that are refused, and then a deletion", OwnPause, probeOwnPause},
		{"changes that are refused, and then a new spec", NewSpec, probeNewSpec},
		{"changes that fail, and then a new spec", FreshSpec, probeFreshSpec},
		{"a creation that no watch sees", Unseen, probeUnseen},
		{"changes while no controllers run", Truth, probeNoControllers},
		{"an object that gets another controller", NoResync, probeNewOwner},
		{"an owner that is created again while nobody collects", OwnObjects, probeFormerOwner},
		{"changes that users take back", FreshPause, probeTakenBack},
		{"a name that is changed back, which no watch sees", FreshOwners, probeRenamed},
		{"a deletion that is seen late, after a restart", FreshOwners, probeDeletedOwner},
		{"a deletion that is seen late, without a status", FreshOwners, probeUnreportedOwner},
		{"a restart that sees an old spec", Forward, probeOldSpec},
		{"a restart that sees an old deletion", Forward, probeOldDeletion},
		{"a termination while a write is open", LeaseLast, probeTermination},
		{"a termination while lists are refused", Terminates, probeRefusedLists},
		{"a conflict that no event follows", NoResync, probeConflict},
		{"a status that cannot be written", NoResync, probeStatus},
		{"a Lease that is lost and regained", NoResync, probeLostLease},
		{"a status that another client removes", Restored, probeOverwrittenStatus},
		{"requests to be sent again later, then one change", FreeWorkers, probeRetryAfter},
	}
	longProbes = []probe{
		{"an hour of errors", SoonAfterErrors, probeErrors},
		{"an hour of undone writes", Pace, probeUndo},
		{"many objects, then one change", NotLast, probeMany},
		{"an hour of refused writes", Pace, probeRefusedWrites},
	}
)

// testProbes tries each probe alone.
func (all *tester) testProbes(t *testing.T) {
	for _, p := range allProbes() {
		t.Run(p.name, func(t *testing.T) {
			if !all.Serial {
				t.Parallel()
			}
			all.test(t, all.newProbe(p), commandFor(t))
		})
	}
}

func allProbes() []*probe { return slices.Concat(pointers(shortProbes), pointers(longProbes)) }

// probeTime is how long a probe lasts that lasts long.
const probeTime = time.Hour

func probeMissedEvent(w *walk) {
	w.withoutResync(NoResync, func() bool {
		refs := w.owned()
		if len(refs) == 0 {
			return false
		}
		w.lock.Lock()
		instances := slices.Clone(w.instances)
		w.lock.Unlock()
		for _, i := range instances { // The other watches go on: what they list again would be synced, too.
			i.CutWatches(refs[0].GroupResource, 5*time.Second)
		}
		_, deleted := w.deleteTheirs("no watch sees that")
		w.server.Compact()
		return deleted
	})
}

func probeFailedWrite(w *walk) {
	w.withoutResync(NoResync, func() bool {
		w.addRule("", time.Second, rejecting(func(*apiserver.Request) error { return errInjected }, func(r *apiserver.Request) bool {
			return isWork(r.Resource) && !w.isUsers(r.Resource) && r.IsWrite()
		}))
		_, deleted := w.deleteTheirs("for 1s, each write fails")
		return deleted
	})
}

// withoutResync judges whether what happens is corrected before the next resync, if it is corrected at all. It happens twice: if a resync follows
// on the first within a minute, which nobody can tell from a correction, none does on the second.
func (w *walk) withoutResync(promise Promise, happens func() bool) {
	for range 2 {
		if w.isBroken(promise) || w.isEnded() || !happens() {
			return
		}
		at := time.Now()
		w.sleep(time.Minute)
		since := time.Now()
		w.sleep(w.resyncTime())
		if made := w.requested(since, w.isCorrection); len(made) > 0 {
			w.violated(promise, "%s after that, %s: %s", made[0].Sent.Sub(at), made[0].Client, made[0])
		}
		w.server.ClearRules()
	}
}

// isCorrection reports whether a request is a write that may succeed. The lock is held.
func (w *walk) isCorrection(r *request) bool { return r.IsWrite() && !w.rejected[r.about] }

// probeFreshDelay judges how soon an error is retried that follows on many errors and a success.
func probeFreshDelay(w *walk) {
	w.failNext(11, errInjected, w.writesTheirs)
	ref, deleted := w.deleteTheirs("the next 11 writes fail")
	if !deleted {
		return
	}
	w.sleep(2 * time.Minute)
	w.server.ClearRules()
	w.sleep(2 * time.Minute) // Write pauses are over.
	w.failNext(1, errInjected, w.writesTheirs)
	since := time.Now()
	w.tell(user, w.delete(ref, metav1.DeletePropagationBackground))
	w.sleep(time.Minute)
	made := w.requested(since, func(r *request) bool { return r.IsWrite() && r.ref == ref })
	if len(made) < 2 {
		return // It is not created again, or the write that failed was another one.
	}
	if late := made[1].Sent.Sub(made[0].Sent); late > 2*time.Second {
		w.violated(FreshDelay, "%s is tried again after %s", made[0], late)
	}
}

// refusedTime is how long the changes of an object are refused, and soonTime how soon another one is created after that.
const refusedTime, soonTime = 15 * time.Minute, 10 * time.Second

// probeOwnPause judges how soon an object is created again whose changes were refused: the creation is not.
func probeOwnPause(w *walk) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	ref := refs[0]
	w.refuseChanges(ref)
	w.changeOwned(ref)
	w.sleep(refusedTime)
	since := time.Now()
	w.tell(user, w.delete(ref, metav1.DeletePropagationBackground))
	w.sleep(maxRetryDelay)
	made := w.requested(since, func(r *request) bool { return r.Verb == "create" && r.ref == ref })
	if len(made) > 0 && made[0].Sent.Sub(since) > soonTime {
		w.violated(OwnPause, "%s later, %s: %s", made[0].Sent.Sub(since), made[0].Client, made[0])
	}
	w.server.ClearRules()
}

// refuseChanges makes changes of an object fail, but not its creation.
func (w *walk) refuseChanges(ref reference) {
	w.tell(user, w.addRule("changes of "+ref.String()+" are refused", forever, rejecting(exceedsQuota, func(r *apiserver.Request) bool {
		return (r.Verb == "update" || r.Verb == "patch") && r.Resource == ref.GroupResource && r.Name == ref.Name
	})))
}

// changeOwned changes a field that the program has set.
func (w *walk) changeOwned(ref reference) {
	what := ""
	for n := 0; what == "" && n < 8; n++ {
		what = w.change(ref, func(o *object) string { return changeField(w, step{argument: n}, o, w.setFields(ref, o)) })
	}
	w.tell(user, what)
}

// probeErrors judges what becomes of an hour of errors.
func probeErrors(w *walk) {
	since := time.Now()
	w.setHidden(true)
	w.addRule("", forever, rejecting(func(*apiserver.Request) error { return errInjected },
		func(r *apiserver.Request) bool { return isWork(r.Resource) && r.IsWrite() }))
	if _, deleted := w.deleteTheirs(fmt.Sprintf("for %s, all writes fail", probeTime)); !deleted {
		return
	}
	w.sleep(probeTime)
	w.judgeHour(since, func(*request) bool { return true }, "although each fails")
	w.server.ClearRules()
	w.tell(user, "no write fails any more")
	w.sleep(maxRetryDelay + convergenceTimeout)
	w.setHidden(false)
	since = time.Now()
	w.sleep(maxRetryDelay)
	if made := w.requested(since, w.isCorrection); len(made) > 0 {
		w.violated(SoonAfterErrors, "%s after the last error, %s: %s", made[0].Sent.Sub(since)+maxRetryDelay+convergenceTimeout, made[0].Client, made[0])
	}
}

// maxWritesInHour is how many writes of an object, for one of the users' objects, are too many in an hour in which none has an effect: more than
// one a minute, one at each resync, and the first twenty of a retry delay that doubles.
const maxWritesInHour = 150

// judgeHour judges Pace of the last hour, of the writes that have no effect.
func (w *walk) judgeHour(since time.Time, isVain func(r *request) bool, although string) {
	counts := map[string]int{}
	for _, r := range w.requested(since, func(r *request) bool { return r.IsWrite() && isVain(r) }) {
		of := r.ref.String() + " for " + r.about
		if counts[of]++; counts[of] > maxWritesInHour {
			w.violated(Pace, "%s makes more than %d writes in %s, %s: %s", r.Client, maxWritesInHour, time.Since(since), although, r)
			return
		}
	}
}

// probeUndo judges what becomes of an hour in which another client undoes what the program writes.
func probeUndo(w *walk) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	ref := refs[0]
	w.tell(user, w.undoChanges(ref, probeTime))
	w.changeOwned(ref)
	for since := time.Now(); time.Since(since) < probeTime && !w.isBroken(Pace) && !w.isEnded(); {
		w.sleep(time.Minute)
		w.judgeHour(since, func(*request) bool { return true }, "although each is undone")
	}
	w.lock.Lock()
	clear(w.undone)
	w.lock.Unlock()
	w.sleep(2*maxRetryDelay + time.Minute)
	w.judgeQuiet(ref)
}

// owned returns the objects of the program that have the owner for whom it has created them, and are not being deleted.
func (w *walk) owned() (refs []reference) {
	for _, ref := range w.theirs() {
		if o := w.get(ref); o != nil && o.GetDeletionTimestamp() == nil && len(o.GetOwnerReferences()) > 0 && !w.isAdopted(o) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// deleteTheirs deletes an object of the program.
func (w *walk) deleteTheirs(what string) (ref reference, deleted bool) {
	for _, ref := range w.owned() {
		if strings.HasPrefix(ref.Name, manyPrefix) {
			continue
		}
		if did := w.delete(ref, metav1.DeletePropagationBackground); did != "" {
			w.tell(user, did+"; "+what)
			return ref, true
		}
	}
	return reference{}, false
}

// writesTheirs reports whether a request is a write for what the program does, but for its users' objects.
func (w *walk) writesTheirs(r *apiserver.Request) bool {
	return isWork(r.Resource) && !w.isUsers(r.Resource) && r.IsWrite()
}
