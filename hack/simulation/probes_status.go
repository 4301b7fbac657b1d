// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
)

// Restored: a status that another client overwrites is corrected by the next resync, or the one after it if client-go skips that. A change of
// nothing but the status need not be noticed.
const Restored Promise = "a status that others overwrite is corrected"

// probeOverwrittenStatus removes the status of an object.
func probeOverwrittenStatus(w *walk) {
	for n := range w.Objects * len(w.kinds) {
		_, _, ref := w.usersObject(n)
		o := w.get(ref)
		if o == nil || o.GetDeletionTimestamp() != nil {
			continue
		}
		before := w.statusOf(ref)
		o.Object["status"] = map[string]any{}
		if _, err := w.user.Update(o, "status"); err != nil || maps.Equal(before, w.statusOf(ref)) {
			continue
		}
		w.tell(user, "removes the status of "+nameOfOwner(o))
		w.sleep(w.resyncTime())
		after := w.statusOf(ref)
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if after[name] != before[name] && !w.isEnded() {
				w.violated(Restored, "%s after the status of %s was removed, %s is %q, and was %q", w.resyncTime(), nameOfOwner(o), name,
					after[name], before[name])
				return
			}
		}
		return
	}
}

// statusOf returns the fields of the status of an object of users, without times.
func (w *walk) statusOf(ref reference) map[string]string {
	fields := map[string]string{}
	o := w.get(ref)
	if o == nil {
		return fields
	}
	for _, f := range w.comparedFields(o, nil) {
		if strings.HasPrefix(f.name, "status.") {
			fields[f.name] = f.text()
		}
	}
	return fields
}
