// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

// judgeEnd judges what each of the users' objects is in the end.
func (w *walk) judgeEnd() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, k := range w.kinds {
		_, hasObserved := value(&object{Object: k.Schema}, "properties", "status", "properties", "observedGeneration").(map[string]any)
		for _, o := range (Cluster{w}).List(k.GroupResource()) {
			observed, _ := observedGeneration(o)
			switch {
			case o.GetDeletionTimestamp() != nil:
				w.violated(Deletion, "%s %s is still being deleted", o.GetKind(), o.GetName())
			case hasObserved && observed != o.GetGeneration():
				w.violated(Generations, "in the end, %s %s reports generation %d, and its newest one is %d", o.GetKind(), o.GetName(), observed,
					o.GetGeneration())
			}
		}
	}
	w.judgeOwnEnd()
}
