// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// judge judges what the program does. What is nil is not judged. The functions are called with the lock of the walk held. They change nothing
// but what they remember themselves, and report what is broken to the story.
type judge struct {
	sent      func(i *instance, r *request)                           // when an instance sends a request
	committed func(i *instance, c *apiserver.Change)                  // when a write of an instance is committed
	failed    func(i *instance, r *request, found *object, err error) // when the API server fails a request
	moment    func()                                                  // every few seconds
}

// newJudges returns all judges of a walk.
func newJudges(w *walk) []judge {
	return []judge{
		leaderJudge(w), ownershipJudge(w), fieldsJudge(w), repetitionJudge(w), paceJudge(w), statusJudge(w), truthJudge(w), copiesJudge(w),
		strictJudge(w), pastJudge(w), ownJudge(w),
	}
}

// judgeMoments lets the judges judge every few seconds, as long as the walk lasts.
func (w *walk) judgeMoments() {
	for {
		w.sleep(momentTime)
		w.moments.Add(1)
		w.lock.Lock()
		if w.over || w.isEnded() {
			w.lock.Unlock()
			return
		}
		for _, j := range w.judges {
			if j.moment != nil {
				j.moment()
			}
		}
		w.lock.Unlock()
	}
}
