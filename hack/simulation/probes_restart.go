// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// probeOldSpec restarts the instances before an API server that does not know of the last change of a spec yet.
func probeOldSpec(w *walk) {
	w.restartInThePast(func(owner *object) int64 {
		before := w.newestVersion()
		w.changeSpec(owner, math.MaxInt)
		return before
	})
}

// probeOldDeletion restarts the instances before an API server on which an object is still being deleted that was created again since.
func probeOldDeletion(w *walk) {
	w.restartInThePast(func(owner *object) int64 {
		ref := w.referenceTo(owner)
		w.tell(user, w.change(ref, func(o *object) string {
			o.SetFinalizers(append(o.GetFinalizers(), holdFinalizer))
			return "adds a finalizer to"
		}))
		w.tell(user, w.delete(ref, metav1.DeletePropagationBackground))
		deleted := w.newestVersion()
		w.sleep(soonTime)
		w.release()
		w.sleep(soonTime)
		again := asNew(owner)
		if !w.create(again) {
			return 0 // The program holds it.
		}
		w.tell(user, "creates again "+describe(again))
		return deleted
	})
}

// restartInThePast lets something happen to an object of a user and restarts the instances, one after the other. For a while, the caches of
// their API server have the users' objects of a resourceVersion that happens returns, unless it is 0.
func (w *walk) restartInThePast(happens func(owner *object) (version int64)) {
	for _, ref := range w.owned() {
		owner := w.controllerOf(ref)
		if owner == nil {
			continue
		}
		version, resource := happens(owner), w.referenceTo(owner).GroupResource
		if version == 0 {
			return
		}
		w.sleep(time.Minute)
		staleTime := w.orElection(startTime) // One of them leads earlier.
		for n := range w.Instances {
			w.lock.Lock()
			w.stale = stale{map[schema.GroupResource]int64{resource: version}, staleTime}
			w.lock.Unlock()
			w.tell(user, fmt.Sprintf("%s: for the first %s, the next instance sees %s of resourceVersion %d", w.current(n).kill(), staleTime,
				resource.Resource, version))
			w.sleep(restartDelay + time.Second)
		}
		w.sleep(2 * staleTime)
		return
	}
}

func (w *walk) newestVersion() int64 {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.version
}
