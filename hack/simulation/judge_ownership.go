// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// ownershipJudge judges OwnObjects and LivingOwners by what the instance knew when it sent a write.
func ownershipJudge(w *walk) judge {
	return judge{
		sent: func(i *instance, r *request) {
			switch {
			case !r.IsWrite() || !isWork(r.Resource):
			case r.Verb == "create" && r.Subresource == "":
				i.judgeOwners(r)
			default:
				i.judgeOwnership(r)
			}
		},
		committed: func(i *instance, c *apiserver.Change) {
			if c.Old != nil && c.Type == watch.Modified && c.Request.Verb != "delete" && isWork(c.Request.Resource) {
				i.judgeFormerOwner(c)
			}
		},
	}
}

// judgeFormerOwner judges whether an instance knows that the controller of what it changes is gone. What it has left belongs to nobody else,
// even if there is another one of its name. To release it, or to take it over, is no such change. The lock is held.
func (i *instance) judgeFormerOwner(c *apiserver.Change) {
	before, after, r := metav1.GetControllerOfNoCopy(c.Old), metav1.GetControllerOfNoCopy(c.New), i.open[c.Request]
	if r == nil || before == nil || after == nil || before.UID != after.UID || !slices.Equal(c.Old.GetFinalizers(), c.New.GetFinalizers()) {
		return
	}
	if since, isAbsent := i.absent[before.UID]; isAbsent && since.Before(r.decided) {
		i.walk.violated(OwnObjects, "%s knows since %s that its controller, %s %s, UID %s, is gone: %s", i.name, time.Since(since), before.Kind,
			before.Name, before.UID, c.Request)
	}
}

// judgeOwners judges whether an instance knows that the owner of what it creates is gone. The lock is held.
func (i *instance) judgeOwners(r *request) {
	if r.body == nil {
		return
	}
	for _, ref := range r.body.GetOwnerReferences() {
		if k, isGone := i.knowsGone(ref.UID); isGone && k.before(r) {
			i.walk.violated(LivingOwners, "%s knows since %s that %s %s is being deleted or gone: %s", i.name, r.decided.Sub(k.since), ref.Kind, ref.Name, r)
		}
	}
}

// judgeOwnership judges whether what an instance changes or deletes is its own, as far as it knows. What a read has shown is not known to all that
// the instance does at that time: a write of what a cache had before fails, and does no harm. The lock is held.
func (i *instance) judgeOwnership(r *request) {
	k, isKnown := i.objects[r.ref]
	switch {
	case i.walk.isUsers(r.Resource):
		found := i.walk.objects[r.ref]
		if isTheirs := found == nil || i.walk.isUsersOwn(found); isTheirs && (r.Verb == "delete" || r.Verb == "deletecollection") {
			i.walk.violated(OwnObjects, "%s deletes what a user has created: %s", i.name, r)
		}
	case isKnown && !k.gone && k.before(r) && !i.walk.isOwn(k.object) && !i.walk.isInVain(r):
		i.walk.violated(OwnObjects, "%s knows since %s that this is not its own: %s", i.name,
			r.decided.Sub(k.since), r)
	}
}

// isOwn reports whether an object has an owner that users or the program have created, or was created by the program without one. The lock
// is held.
func (w *walk) isOwn(o *object) bool {
	for _, ref := range o.GetOwnerReferences() {
		if w.users[ref.UID] || w.created[ref.UID] != nil {
			return true
		}
	}
	created := w.created[o.GetUID()]
	return created != nil && len(created.GetOwnerReferences()) == 0
}
