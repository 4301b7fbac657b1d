// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Unstored has the statuses that the API server has not stored as they were written, because the installed CRD is older than this
// program: it has no status subresource, or its schema lacks fields. Without them each resync would write the same status again.
type Unstored struct {
	lock     sync.Mutex
	statuses map[cache.ObjectName]unstoredStatus
	probed   time.Time
}

type unstoredStatus struct {
	uid    types.UID
	status samplev1alpha1.FooStatus
}

// probePeriod is how often the status of one Foo is written again, to notice that the CRD has been updated.
const probePeriod = 5 * time.Minute

// Complete returns a Foo with the status that was last written for it: the given one, or a copy if that was not stored.
func (u *Unstored) Complete(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo {
	u.lock.Lock()
	defer u.lock.Unlock()
	unstored, ok := u.statuses[cache.MetaObjectToName(foo)]
	if !ok || unstored.uid != foo.UID {
		return foo
	}
	if time.Since(u.probed) >= probePeriod {
		u.probed = time.Now()
		return foo
	}
	completed := foo.DeepCopy()
	unstored.status.DeepCopyInto(&completed.Status)
	return completed
}

// Add adds a status that was not stored, and reports whether it is the first one.
func (u *Unstored) Add(foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus) (isFirst bool) {
	u.lock.Lock()
	defer u.lock.Unlock()
	isFirst = u.statuses == nil
	if isFirst {
		u.statuses, u.probed = map[cache.ObjectName]unstoredStatus{}, time.Now()
	}
	u.statuses[cache.MetaObjectToName(foo)] = unstoredStatus{foo.UID, status}
	return isFirst
}

// Clear forgets all statuses, because one has been stored as it was written: the CRD has been updated.
func (u *Unstored) Clear() {
	u.lock.Lock()
	defer u.lock.Unlock()
	u.statuses = nil
}

// Delete forgets the status of a Foo.
func (u *Unstored) Delete(foo cache.ObjectName) {
	u.lock.Lock()
	defer u.lock.Unlock()
	delete(u.statuses, foo)
}
