// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeUnseen deletes what the program creates while its watches are cut: neither is seen.
func probeUnseen(w *walk) {
	w.withoutResync(Unseen, func() bool {
		refs := w.owned()
		if len(refs) == 0 {
			return false
		}
		for n := range w.Instances {
			w.current(n).CutWatches(refs[0].GroupResource, 5*time.Second)
		}
		o := w.newMany(0)
		if !w.create(o) {
			return false
		}
		w.tell(user, "creates "+describe(o)+"; what becomes of it, no watch sees")
		w.sleep(2 * time.Second)
		deleted := false
		for _, ref := range w.owned() {
			if owner := w.controllerOf(ref); owner != nil && owner.GetName() == o.GetName() && ref.GroupResource == refs[0].GroupResource {
				w.tell(user, w.delete(ref, metav1.DeletePropagationBackground))
				deleted = true
			}
		}
		w.server.Compact()
		return deleted
	})
}
