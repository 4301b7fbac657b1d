// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package consistency keeps a controller from acting on a cache that is older than the controller's own last write. Its terms are
// those of the package of the same name in kube-controller-manager, which cannot be imported.
package consistency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// ErrStale means that a cache is older than the known state of the API server, so the controller must not act on it yet.
var ErrStale = errors.New("the cache is stale")

// staleCacheTimeout is how long a cache may be older than a write. After it the write is taken to be lost, because etcd was
// restored from an older snapshot; preconditions make the API server reject what is then written because of a stale cache.
const staleCacheTimeout = time.Minute

// Store records the resourceVersions of a controller's last writes for each owner, which is a key of the workqueue. It is safe for
// concurrent use.
//
// The resourceVersions of one resource are ordered, see
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions. A cache whose resourceVersion is not known, as
// without client-go's feature AtomicFIFO, counts as never stale.
type Store struct {
	caches map[schema.GroupResource]cache.Store

	lock sync.Mutex
	// writes are those that the caches may not have reached.
	writes map[cache.ObjectName][]write
}

type write struct {
	resource        schema.GroupResource
	resourceVersion string
	at              time.Time
}

// NewStore returns an empty store for writes to the resources that the given caches hold.
func NewStore(caches map[schema.GroupResource]cache.Store) *Store {
	return &Store{caches: caches, writes: map[cache.ObjectName][]write{}}
}

// WroteAt records that a write for an owner was answered with resourceVersion.
func (s *Store) WroteAt(owner cache.ObjectName, resource schema.GroupResource, resourceVersion string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.writes[owner] = append(s.writes[owner], write{resource, resourceVersion, time.Now()})
}

// EnsureReady returns an error that wraps ErrStale while a cache is older than the last write for the owner.
func (s *Store) EnsureReady(owner cache.ObjectName) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, write := range s.writes[owner] {
		read := s.caches[write.resource].LastStoreSyncResourceVersion()
		order, err := resourceversion.CompareResourceVersion(read, write.resourceVersion)
		if err == nil && order < 0 && time.Since(write.at) < staleCacheTimeout {
			return fmt.Errorf("%w: %s are at resourceVersion %s, and %s was written", ErrStale, write.resource, read, write.resourceVersion)
		}
	}
	delete(s.writes, owner)
	return nil
}

// EnsureCurrent reads a Foo live. It returns an error that wraps ErrStale if the API server has another Foo of the name, or another spec,
// than the cache. The generations may be equal even so, if etcd was restored from an older snapshot.
func EnsureCurrent(ctx context.Context, client clientset.Interface, foo *samplev1alpha1.Foo) error {
	live, err := client.SamplecontrollerV1alpha1().Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != foo.UID || !equality.Semantic.DeepEqual(live.Spec, foo.Spec) || live.DeletionTimestamp != nil {
		return fmt.Errorf("%w: Foo %q has changed", ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}
