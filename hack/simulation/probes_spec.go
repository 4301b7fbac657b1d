// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// probeNewSpec judges how soon a new spec is tried after changes for the old one were refused.
func probeNewSpec(w *walk) {
	w.refuseThenChange(exceedsQuota, func(about string) {
		since := time.Now()
		w.sleep(maxRetryDelay)
		if made := w.writesFor(about, since); len(made) > 0 && made[0].Sent.Sub(since) > soonTime {
			w.violated(NewSpec, "%s later, %s: %s", made[0].Sent.Sub(since), made[0].Client, made[0])
		}
	})
}

// probeFreshSpec judges how soon a write for a new spec is tried again that fails first, after those for the old one have failed.
func probeFreshSpec(w *walk) {
	failed := func(*apiserver.Request) error { return errInjected }
	w.refuseThenChange(failed, func(about string) {
		w.sleep(time.Second)
		w.server.ClearRules()
		since := time.Now()
		w.sleep(maxRetryDelay)
		if made := w.writesFor(about, since); len(made) > 0 && made[0].Sent.Sub(since) > soonTime {
			w.violated(FreshSpec, "%s later, %s: %s", made[0].Sent.Sub(since), made[0].Client, made[0])
		}
	})
}

// refuseThenChange changes an object of the program, lets corrections fail for some time, and then changes the spec of what it is about.
func (w *walk) refuseThenChange(err func(r *apiserver.Request) error, judge func(about string)) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	ref := refs[0]
	controller := w.controllerOf(ref)
	if controller == nil {
		return
	}
	w.tell(user, w.addRule("changes of "+ref.String()+" fail", forever, rejecting(err, func(r *apiserver.Request) bool {
		return (r.Verb == "update" || r.Verb == "patch") && r.Resource == ref.GroupResource && r.Name == ref.Name
	})))
	w.changeOwned(ref)
	w.sleep(refusedTime)
	if owner := w.changeSpec(controller, 1); owner != "" {
		judge(owner)
	}
	w.server.ClearRules()
}

// changeSpec changes at most limit fields in the spec of a user's object, but for names, and returns which object that is.
func (w *walk) changeSpec(controller *object, limit int) string {
	ref, changed := w.referenceTo(controller), 0
	for _, k := range w.kinds {
		for _, l := range k.leaves {
			if k.GroupResource() == ref.GroupResource && !k.isName(l) && changed < limit && w.changeField(ref, k, l) {
				changed++
			}
		}
	}
	if changed == 0 {
		return ""
	}
	return ref.String()
}

func (w *walk) changeField(ref reference, k *userKind, l leaf) bool {
	for n := range 8 {
		v := k.valueOf(l, n+3) // The first ones may be what the program has without the field.
		if v == nil {
			return false
		}
		if what := w.change(ref, func(o *object) string { setField(o, v, l.path...); return "changes" }); what != "" {
			w.tell(user, what)
			return true
		}
	}
	return false
}

// writesFor returns the writes since a time for an object of a user, but for those of its status.
func (w *walk) writesFor(about string, since time.Time) []*request {
	return w.requested(since, func(r *request) bool { return r.IsWrite() && r.about == about && !w.isUsers(r.Resource) })
}
