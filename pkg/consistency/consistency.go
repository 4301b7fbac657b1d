// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package consistency keeps a controller from acting on a cache that is older than the controller's own last write.
package consistency

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// ErrBehind says that a cache is older than what is known of the API server, such as by our own last write: what it holds
// must not be acted upon yet.
var ErrBehind = errors.New("the cache is behind the API server")

// mostPatience is how long a write may be invisible before it is taken for one that never will be seen, because the API
// server was restored from an older backup. What is written on the grounds of an old cache is refused by its preconditions.
const mostPatience = time.Minute

// Store is the part of an informer's store that tells how new it is.
type Store interface {
	// LastStoreSyncResourceVersion is the resource version that the store reflects, or "" if it is not known.
	LastStoreSyncResourceVersion() string
}

// Writes remembers, for each key of a workqueue, the newest resource version that was written for it to the resource that
// one store caches. It is safe for concurrent use.
//
// Resource versions of one resource are ordered, see
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions. A store whose resource version is not known,
// such as those of client-go without its feature AtomicFIFO, counts as one that reflects every write.
type Writes struct {
	store Store

	lock   sync.Mutex
	newest map[cache.ObjectName]write
}

type write struct {
	resourceVersion string
	at              time.Time
}

// NewWrites returns an empty record of the writes to the resource that store caches.
func NewWrites(store Store) *Writes {
	return &Writes{store: store, newest: map[cache.ObjectName]write{}}
}

// Record says that a write for key was answered with resourceVersion.
func (w *Writes) Record(key cache.ObjectName, resourceVersion string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.newest[key] = write{resourceVersion, time.Now()}
}

// Forget drops what was recorded for key.
func (w *Writes) Forget(key cache.ObjectName) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.newest, key)
}

// Visible reports whether the store reflects the newest write for key.
func (w *Writes) Visible(key cache.ObjectName) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	newest, ok := w.newest[key]
	if !ok {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(w.store.LastStoreSyncResourceVersion(), newest.resourceVersion)
	if err == nil && order < 0 && time.Since(newest.at) < mostPatience {
		return false
	}
	delete(w.newest, key)
	return true
}
