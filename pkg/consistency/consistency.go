// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package consistency keeps a controller from acting on a cache that is behind: older than the controller's own last write, or,
// before what cannot be taken back, older than a live read.
package consistency

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	typedsamplev1alpha1 "k8s.io/sample-controller/pkg/generated/clientset/versioned/typed/samplecontroller/v1alpha1"
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
	w.forget(key)
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
	w.forget(key)
	return true
}

// forget is Forget with w.lock held.
func (w *Writes) forget(key cache.ObjectName) {
	delete(w.newest, key)
	if len(w.newest) == 0 {
		w.newest = map[cache.ObjectName]write{} // One that has grown does not shrink.
	}
}

// CheckNewest reads a Foo live and returns ErrBehind unless the cached one says the same about what is wanted.
func CheckNewest(ctx context.Context, foos typedsamplev1alpha1.FoosGetter, foo *samplev1alpha1.Foo) error {
	live, err := foos.Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != foo.UID || live.Generation != foo.Generation || live.DeletionTimestamp != nil {
		return ErrBehind
	}
	return nil
}

// CheckRepair is CheckNewest for a Foo whose wish was seen to before: has someone changed or deleted its Deployment, or is the
// cache of Foos behind? A cache that still holds a deleted Foo would otherwise race with garbage collection. A new wish passes
// without a request.
func CheckRepair(ctx context.Context, foos typedsamplev1alpha1.FoosGetter, foo *samplev1alpha1.Foo) error {
	if foo.Status.ObservedGeneration != foo.Generation {
		return nil
	}
	return CheckNewest(ctx, foos, foo)
}
