// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// probeFormerOwner creates an object again while what the former one has left is not collected, and changes both.
func probeFormerOwner(w *walk) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	owner := w.controllerOf(refs[0])
	if owner == nil || len(owner.GetFinalizers()) > 0 || w.user.Delete(owner, metav1.DeleteOptions{}) != nil {
		return
	}
	again := asNew(owner)
	w.create(again)
	w.tell(user, "deletes and creates again "+describe(again)+"; "+w.stopControllers(forever))
	w.sleep(soonTime)
	w.changeSpec(again, 1)
	w.changeOwned(refs[0])
	w.sleep(time.Minute)
	w.server.ClearRules()
}

// probeNewOwner makes another object of a user the controller of what the program has created.
func probeNewOwner(w *walk) {
	w.withoutResync(NoResync, func() bool {
		for _, ref := range w.owned() {
			owner := w.controllerOf(ref)
			for n := range 2 * poolSize {
				if _, _, other := w.usersObject(n); owner == nil || other == w.referenceTo(owner) || other.Namespace != ref.Namespace {
					continue
				}
				what := w.change(ref, func(o *object) string {
					o.SetOwnerReferences(nil)
					return adopt(w, step{argument: n}, o, nil)
				})
				if w.tell(user, what); what != "" {
					return true
				}
			}
		}
		return false
	})
}

// renamedName is the name that probeRenamed gives what an object of a user is about.
const renamedName = "renamed"

// probeRenamed changes a name in an object of a user and, once the program has created something of the new name, changes it back. The program
// does not see that, and may go on to delete what has the old name.
func probeRenamed(w *walk) {
	for _, ref := range w.owned() {
		owner := w.controllerOf(ref)
		if owner == nil || !w.rename(owner) {
			continue
		}
		before := len(w.ownedBy(owner))
		for since := time.Now(); len(w.ownedBy(owner)) == before; {
			if w.sleep(10 * time.Millisecond); time.Since(since) > soonTime || w.isEnded() {
				return
			}
		}
		for n := range w.Instances {
			w.current(n).Hold(w.referenceTo(owner).GroupResource, 3*soonTime)
		}
		w.tell(user, w.change(w.referenceTo(owner), becomes(owner))+"; no watch shows that")
		w.sleep(time.Minute)
		return
	}
}

// probeDeletedOwner restarts the instances and, once their caches have synced, deletes an object of a user. What the program has created for it is
// garbage-collected, and the program sees that before it sees the deletion.
func probeDeletedOwner(w *walk) {
	for n := range w.Instances {
		w.tell(user, w.current(n).kill())
		w.sleep(restartDelay + time.Second)
	}
	w.sleep(w.orElection(2 * time.Minute))
	for _, ref := range w.owned() {
		if owner := w.controllerOf(ref); owner != nil {
			w.deleteUnseen(w.referenceTo(owner))
			return
		}
	}
}

// unreportedTimes are how long an object is without a status, until it is deleted. A memory may be shorter than the longer one.
var unreportedTimes = []time.Duration{2 * time.Minute, 2 * time.Hour}

// probeUnreportedOwner lets the same happen to an object whose status cannot be written: that the program has created something for it before,
// nothing but its memory tells.
func probeUnreportedOwner(w *walk) {
	w.setHidden(true)
	w.tell(user, w.addRule("no status can be written", forever, rejecting(func(*apiserver.Request) error { return errInjected }, w.writesStatus)))
	if o := w.newMany(0); w.create(o) {
		w.tell(user, "creates "+describe(o))
		w.sleep(unreportedTimes[w.script.choice(len(unreportedTimes), "unreported")])
		w.deleteUnseen(w.referenceTo(o))
	}
	w.server.ClearRules()
	w.setHidden(false)
}

// deleteUnseen deletes an object of a user. The instances see that what it owns is collected before they see the deletion.
func (w *walk) deleteUnseen(ref reference) {
	for n := range w.Instances {
		w.current(n).Hold(ref.GroupResource, 3*soonTime)
	}
	w.tell(user, w.delete(ref, metav1.DeletePropagationBackground)+"; the watch shows that late")
	w.sleep(time.Minute)
}

// rename changes the first name in an object of a user, and reports whether it has one.
func (w *walk) rename(owner *object) bool {
	ref := w.referenceTo(owner)
	for _, k := range w.kinds {
		for _, l := range k.leaves {
			if k.GroupResource() == ref.GroupResource && k.isName(l) && value(owner, l.path...) != nil {
				w.tell(user, w.change(ref, func(o *object) string {
					setField(o, renamedName, l.path...)
					return "changes"
				}))
				return true
			}
		}
	}
	return false
}

func (w *walk) ownedBy(owner *object) []*object {
	w.lock.Lock()
	defer w.lock.Unlock()
	return Cluster{w}.ControlledBy(owner)
}

// controllerOf returns the object of a user that controls an object, or nil.
func (w *walk) controllerOf(ref reference) *object {
	for _, k := range w.kinds {
		for _, o := range w.server.List(k.GroupResource(), ref.Namespace) {
			if found := w.get(ref); found != nil && metav1.IsControlledBy(found, o) {
				return o
			}
		}
	}
	return nil
}
