// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package walks

// ownershipJudge judges OwnObjects and LivingOwners when a write is sent, by what the instance knows then.
func ownershipJudge(w *walk) judge {
	return judge{sent: func(i *instance, r *request) {
		switch {
		case !r.IsWrite() || !isWork(r.Resource):
		case r.Verb == "create" && r.Subresource == "":
			i.judgeOwners(r)
		default:
			i.judgeOwnership(r)
		}
	}}
}

// judgeOwners judges whether an instance knows that the owner of what it creates is gone. The lock is held.
func (i *instance) judgeOwners(r *request) {
	if r.body == nil {
		return
	}
	for _, ref := range r.body.GetOwnerReferences() {
		if k, isGone := i.knowsGone(ref.UID); isGone && k.since.Before(r.decided) {
			i.walk.violated(LivingOwners, "%s knows since %s that %s %s is being deleted or gone: %s", i.name, r.decided.Sub(k.since), ref.Kind, ref.Name, r)
		}
	}
}

// judgeOwnership judges whether what an instance changes or deletes is its own, as far as it knows. The lock is held.
func (i *instance) judgeOwnership(r *request) {
	k, isKnown := i.objects[r.ref]
	switch {
	case i.walk.isUsers(r.Resource):
		if r.Verb == "delete" || r.Verb == "deletecollection" {
			i.walk.violated(OwnObjects, "%s deletes what a user has created: %s", i.name, r)
		}
	case isKnown && !k.gone && k.since.Before(r.decided) && !i.walk.isOwn(k.object):
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
