// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package consistency keeps a sync from acting on caches that are older than what the controller has written.
package consistency

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/pkg/metrics"
)

// ErrStale means that a cache is older than the known state of the API server: a sync must not act on it.
var ErrStale = errors.New("the cache is stale")

// staleCacheTimeout bounds how long a cache may be older than a write. After it the write is assumed lost,
// because etcd was restored from an older snapshot. Preconditions still protect what is written then.
const staleCacheTimeout = time.Minute

const missedDelay = 5 * time.Second

// ConsistencyStore keeps a controller from acting on a cache that is older than the controller's own last write, or
// than a live read that showed the cache to be stale. It records the resourceVersions of both for each owner, which is
// a key of the workqueue. It is safe for concurrent use. Its terms, and its rule for a cache of unknown version, are
// those of k8s.io/client-go/util/consistency in the beta releases of client-go 0.38. The timeout is its own.
//
// The resourceVersions of one resource are ordered, see
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions. A cache whose
// resourceVersion is not known, as without client-go's feature AtomicFIFO, counts as stale. Versions that
// cannot be compared do not.
type ConsistencyStore struct {
	stores map[schema.GroupResource]cache.Store

	lock   sync.Mutex
	writes map[cache.ObjectName][]write // Those that the caches may not have reached.
}

type write struct {
	resource        schema.GroupResource
	resourceVersion string
	at              time.Time
}

// NewConsistencyStore returns an empty store.
func NewConsistencyStore(logger klog.Logger) *ConsistencyStore {
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		logger.Info("Each write delays further syncs of its object, because caches do not know their "+
			"resourceVersion; remove KUBE_FEATURE_AtomicFIFO=false from the environment", "delay", staleCacheTimeout)
	}
	return &ConsistencyStore{stores: map[schema.GroupResource]cache.Store{}, writes: map[cache.ObjectName][]write{}}
}

// Add adds the cache that has to reach the writes to a resource.
func (s *ConsistencyStore) Add(resource schema.GroupResource, cached cache.Store) {
	s.stores[resource] = cached
	metrics.StaleSyncSkips.WithLabelValues(resource.Group, resource.Resource) // The series starts at 0.
}

// WroteAt records the resourceVersion in the response to a write for an owner, or to a live read, unless it cannot be
// compared.
func (s *ConsistencyStore) WroteAt(owner cache.ObjectName, resource schema.GroupResource, resourceVersion string) {
	if _, err := resourceversion.CompareResourceVersion(resourceVersion, resourceVersion); err != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.writes[owner] = append(s.writes[owner], write{resource, resourceVersion, time.Now()})
}

// EnsureReady returns an error that wraps ErrStale while a cache is older than the last write for the owner.
func (s *ConsistencyStore) EnsureReady(owner cache.ObjectName) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, write := range s.writes[owner] {
		if read, isStale := s.read(write); isStale && time.Since(write.at) < staleCacheTimeout {
			metrics.StaleSyncSkips.WithLabelValues(write.resource.Group, write.resource.Resource).Inc()
			return fmt.Errorf("%w: %s are at resourceVersion %s, and the API server has %s",
				ErrStale, write.resource, cmp.Or(read, "unknown"), write.resourceVersion)
		}
	}
	delete(s.writes, owner)
	return nil
}

// read returns the resourceVersion of the cache that has to reach a write, and whether it is older.
func (s *ConsistencyStore) read(write write) (resourceVersion string, isStale bool) {
	read := s.stores[write.resource].LastStoreSyncResourceVersion()
	order, err := resourceversion.CompareResourceVersion(read, write.resourceVersion)
	return read, read == "" || err == nil && order < 0
}

// Missed returns the owners that were not synced in the 5 s after a write of what they own, though the cache has reached
// it. If an object is deleted soon after its creation, a relist shows neither, and no event leads to a sync. A write of
// an owner itself, of the given resource, needs none.
func (s *ConsistencyStore) Missed(owner schema.GroupResource) (owners []cache.ObjectName) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for name, writes := range s.writes {
		if slices.ContainsFunc(writes, func(write write) bool {
			if write.resource == owner || time.Since(write.at) < missedDelay {
				return false
			}
			_, isStale := s.read(write)
			return !isStale
		}) {
			owners = append(owners, name)
		}
	}
	return owners
}

// ListNewest makes the first LIST consistent, as a WatchList is. The Reflector lists if the API server does not serve a
// WatchList, as by default before Kubernetes 1.34. Its resourceVersion 0 would accept the state of a stale watch cache,
// which may be older than what a predecessor has acted on.
func ListNewest(options *metav1.ListOptions) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
}
