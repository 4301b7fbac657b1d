// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

const (
	// Forward: after a restart, no write of an object is about an older generation of its owner than a write before the restart.
	Forward Promise = "no restart goes back in time"
	// NoTwins: nothing is created for an owner that has one already, with another generated name.
	NoTwins Promise = "nothing is created twice"
)

// pastJudge judges Forward and NoTwins.
func pastJudge(w *walk) judge {
	type past struct {
		owner *object   // the newest one that a writer has known; of generation 0 if it may have known an older one
		since time.Time // when the first write was about it
	}
	last := map[reference]past{}
	return judge{committed: func(i *instance, c *apiserver.Change) {
		if c.Old == nil {
			w.judgeTwins(i, c)
		}
		ref, k := w.referenceTo(c.New), i.knownOwner(c)
		before := last[ref]
		switch owner := k.object; {
		case owner == nil:
		case k.since.After(i.open[c.Request].decided):
			// It may have known an older state, but it has written this UID.
			its := metav1.GetControllerOfNoCopy(c.New)
			if its != nil && its.UID == owner.GetUID() && (before.owner == nil || before.owner.GetUID() != its.UID) {
				oldest := owner.DeepCopy()
				oldest.SetGeneration(0)
				last[ref] = past{oldest, time.Now()}
			}
		case isOlder(owner, before.owner):
			if i.started.After(before.since) { // A process whose watch lags corrects itself.
				w.violated(Forward, "%s knows %s %s of resourceVersion %s, and a write before its start was about resourceVersion %s: %s", i.name,
					owner.GetKind(), owner.GetName(), owner.GetResourceVersion(), before.owner.GetResourceVersion(), c.Request)
			}
		case before.owner == nil || before.owner.GetUID() != owner.GetUID() || before.owner.GetGeneration() != owner.GetGeneration():
			last[ref] = past{owner, time.Now()}
		}
	}}
}

// knownOwner returns what an instance knows of the users' object that controls what was written, if there is one. The lock is held.
func (i *instance) knownOwner(c *apiserver.Change) known {
	written := c.Old
	if written == nil {
		written = c.New
	}
	owner := metav1.GetControllerOfNoCopy(written)
	if i.open[c.Request] == nil || owner == nil {
		return known{}
	}
	ref, isUsers := i.walk.ownerOf(written.GetNamespace(), owner)
	if !isUsers {
		return known{}
	}
	return i.objects[ref]
}

// ownerOf returns where an owner is, and whether it is one of the users' objects.
func (w *walk) ownerOf(namespace string, owner *metav1.OwnerReference) (ref reference, isUsers bool) {
	resource := w.resourceOf(owner)
	if resource == nil || !w.isUsers(resource.GroupResource()) {
		return reference{}, false
	}
	name := types.NamespacedName{Name: owner.Name}
	if resource.Namespaced {
		name.Namespace = namespace
	}
	return reference{resource.GroupResource(), name}, true
}

// isOlder reports whether an object is an older generation than another one, or a predecessor of that name.
func isOlder(a, b *object) bool {
	switch {
	case b == nil || a.GetKind() != b.GetKind() || a.GetName() != b.GetName(): // Which of two owners has an object is not a matter of their age.
		return false
	case a.GetUID() == b.GetUID():
		return a.GetGeneration() < b.GetGeneration()
	}
	return version(a) < version(b)
}

// judgeTwins judges a creation. The lock is held.
func (w *walk) judgeTwins(i *instance, c *apiserver.Change) {
	owner := metav1.GetControllerOfNoCopy(c.New)
	if c.New.GetGenerateName() == "" || owner == nil {
		return
	}
	for _, o := range (Cluster{w}).List(c.Request.Resource) {
		its := metav1.GetControllerOfNoCopy(o)
		isSame := its != nil && its.UID == owner.UID && o.GetGenerateName() == c.New.GetGenerateName() && o.GetUID() != c.New.GetUID()
		if created := w.created[o.GetUID()]; isSame && created != nil && created.GetResourceVersion() == o.GetResourceVersion() {
			w.violated(NoTwins, "%s creates %s for %s %s, which has %s: %s", i.name, c.New.GetName(), owner.Kind, owner.Name, o.GetName(), c.Request)
		}
	}
}
