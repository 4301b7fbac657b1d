// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// fieldsJudge judges OwnFields when a write is committed. The program's fields are those that it has in its creations and patches: managed
// fields alone would make a whole object its own once it has created it.
func fieldsJudge(w *walk) judge {
	return judge{committed: func(i *instance, c *apiserver.Change) {
		r := c.Request
		if c.Old == nil || c.Type != watch.Modified || r.Verb == "delete" || c.Admitted || !isWork(r.Resource) {
			return
		}
		if r.Subresource == "" {
			w.judgeFields(i, c)
		}
		for _, finalizer := range c.Old.GetFinalizers() {
			if !w.finalizer[finalizer] && !slices.Contains(c.New.GetFinalizers(), finalizer) {
				w.violated(OwnFields, "%s removes the finalizer %s, which it does not add: %s", i.name, finalizer, r)
			}
		}
	}}
}

// judgeFields judges which fields a write drops or changes. The lock is held.
func (w *walk) judgeFields(i *instance, c *apiserver.Change) {
	after := valuesOf(c.New)
	for _, f := range fieldsOf(c.Old) {
		name := fieldOf{c.Request.Resource, f.name}
		v, isThere := after[f.name]
		switch {
		case w.set[name], isThere && v == f.text():
		case !isThere:
			w.violated(OwnFields, "%s drops %s of %s %s, which it does not set: %s", i.name, f.name, c.Old.GetKind(), c.Old.GetName(), c.Request)
		case !w.initial[name]:
			w.violated(OwnFields, "%s changes %s of %s %s, which it does not set, from %s to %s: %s", i.name, f.name, c.Old.GetKind(), c.Old.GetName(),
				f.text(), v, c.Request)
		}
	}
}
