// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package walks

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"time"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// strictJudge judges the strict promises.
func strictJudge(w *walk) judge {
	return judge{
		committed: func(i *instance, c *apiserver.Change) {
			if c.Old == nil || !isWork(c.Request.Resource) {
				return
			}
			ref := w.referenceTo(c.New)
			if last := i.objects[ref].object; last == nil || last.GetResourceVersion() != c.Old.GetResourceVersion() {
				w.violated(FreshWrites, "%s cannot know the %s that it changes: resourceVersion %s: %s", i.name, ref, c.Old.GetResourceVersion(), c.Request)
			}
		},
		failed: func(i *instance, r *request, found *object, err error) {
			isLate := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
			if found == nil || !isLate || !isWork(r.Resource) || r.Verb == "create" && !sameOwner(r.body, found) {
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

// sameOwner reports whether two objects have the same first owner, or none.
func sameOwner(a, b *object) bool {
	if a == nil {
		return false
	}
	x, y := a.GetOwnerReferences(), b.GetOwnerReferences()
	return len(x) == 0 && len(y) == 0 || len(x) > 0 && len(y) > 0 && x[0].UID == y[0].UID
}
