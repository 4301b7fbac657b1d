// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// strictJudge judges the strict promises.
func strictJudge(w *walk) judge {
	return judge{
		committed: func(i *instance, c *apiserver.Change) {
			if !isWork(c.Request.Resource) {
				return
			}
			ref := w.referenceTo(c.New)
			if c.Old == nil {
				// If it was created just before, the instance may not have seen yet that its owner's status reports it.
				owner, last := metav1.GetControllerOfNoCopy(c.New), i.objects[ref].object
				if owner != nil && last != nil && sameOwner(c.New, last) && time.Since(last.GetCreationTimestamp().Time) > time.Minute {
					i.judgeFreshOwner(c, owner)
				}
				return
			}
			if last := i.objects[ref].object; last == nil || last.GetResourceVersion() != c.Old.GetResourceVersion() {
				w.violated(FreshWrites, "%s cannot know the %s that it changes: resourceVersion %s: %s", i.name, ref, c.Old.GetResourceVersion(), c.Request)
			}
			if owner := metav1.GetControllerOfNoCopy(c.Old); owner != nil && c.Request.Verb == "delete" {
				i.judgeFreshOwner(c, owner)
			}
		},
		failed: func(i *instance, r *request, found *object, err error) {
			isLate := (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && !isDenied(err)
			if found == nil || !isLate || !isWork(r.Resource) || w.isForAnotherOwner(r, found) {
				return // What was written for another owner is no own write.
			}
			k := i.objects[r.ref]
			switch {
			case i.acked[r.ref] == found.GetResourceVersion():
				w.violated(OwnWrites, "%s acts without its own write of %s, resourceVersion %s: %s: %s", i.name, r.ref, found.GetResourceVersion(), r,
					apierrors.ReasonForError(err))
			case apierrors.IsConflict(err) && version(k.object) == version(found) && r.decided.Sub(k.since) > time.Second:
				w.violated(NoConflict, "%s has seen %s, resourceVersion %s, %s before: %s: %s", i.name, r.ref, found.GetResourceVersion(),
					r.decided.Sub(k.since), r, apierrors.ReasonForError(err))
			}
		},
	}
}

// judgeFreshOwner judges whether an instance has known the users' object that controls what it deletes or creates again: as it is, unless that is
// later than the decision. What an owner that is gone has left may be deleted. The lock is held.
func (i *instance) judgeFreshOwner(c *apiserver.Change, controller *metav1.OwnerReference) {
	w, r := i.walk, i.open[c.Request]
	ref, isUsers := w.ownerOf(c.New.GetNamespace(), controller)
	if r == nil || !isUsers || !w.specAt[ref.String()].Before(r.decided) {
		return
	}
	known, owner := i.objects[ref].object, w.objects[ref]
	switch {
	case owner != nil && owner.GetUID() == controller.UID:
		if known == nil || known.GetUID() != owner.GetUID() || known.GetGeneration() != owner.GetGeneration() {
			w.violated(FreshOwners, "%s cannot know generation %d of %s, which is %s old: %s", i.name, owner.GetGeneration(), ref,
				time.Since(w.specAt[ref.String()]), c.Request)
		}
	case c.Old == nil:
		w.violated(FreshOwners, "%s creates for %s, UID %s, which is gone: %s", i.name, ref, controller.UID, c.Request)
	}
}

// isForAnotherOwner reports whether a request is for another owner than that of the object that was found: it creates one, or is to change or delete
// one of that name that was there before. The lock is held.
func (w *walk) isForAnotherOwner(r *request, found *object) bool {
	switch r.Verb {
	case "create":
		return !sameOwner(r.body, found)
	case "update", "patch":
		former, isKnown := w.controlledAt[text(r.body, "metadata", "resourceVersion")]
		return isKnown && !sameOwner(former, found)
	case "delete":
		options, err := r.Object()
		if err != nil {
			return false // It may have none.
		}
		uid := types.UID(text(options, "preconditions", "uid"))
		if adopter, isAdopted := w.adopted[uid]; isAdopted {
			owner := metav1.GetControllerOfNoCopy(found)
			return owner == nil || owner.UID != adopter
		}
		former := w.created[uid]
		return former != nil && !sameOwner(former, found)
	}
	return false
}

// sameOwner reports whether two objects have the same first owner, or none.
func sameOwner(a, b *object) bool {
	if a == nil {
		return false
	}
	x, y := a.GetOwnerReferences(), b.GetOwnerReferences()
	return len(x) == 0 && len(y) == 0 || len(x) > 0 && len(y) > 0 && x[0].UID == y[0].UID
}
