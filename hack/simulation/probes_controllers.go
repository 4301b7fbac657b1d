// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// probeNoControllers changes fields of an object of the program, and then a name in what it is about, while kube-controller-manager does not
// run: nothing is rolled out. What the program reports meanwhile, and what it does, is judged as ever.
func probeNoControllers(w *walk) {
	for _, ref := range w.owned() {
		owner := w.controllerOf(ref)
		if owner == nil {
			continue
		}
		w.tell(user, w.stopControllers(forever))
		for n := range 8 {
			w.tell(user, w.change(ref, func(o *object) string { return changeField(w, step{argument: n}, o, w.setFields(ref, o)) }))
		}
		w.sleep(truthTime + 3*momentTime)
		w.rename(owner)
		w.sleep(truthTime + 3*momentTime)
		w.server.ClearRules()
		w.sleep(time.Minute)
		return
	}
}
