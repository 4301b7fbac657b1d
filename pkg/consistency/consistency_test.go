// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var (
	owners      = schema.GroupResource{Group: "example.com", Resource: "owners"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	owner       = cache.NewObjectName("default", "example")
)

// fakeCache is a cache that has reached a resourceVersion.
type fakeCache struct {
	cache.Store
	at string
}

func (c *fakeCache) LastStoreSyncResourceVersion() string { return c.at }

func newTestStore(ownersAt, deploymentsAt string) (store *ConsistencyStore, ownersCache, deploymentsCache *fakeCache) {
	ownersCache, deploymentsCache = &fakeCache{at: ownersAt}, &fakeCache{at: deploymentsAt}
	store = NewConsistencyStore(klog.Background())
	store.Add(owners, ownersCache)
	store.Add(deployments, deploymentsCache)
	return store, ownersCache, deploymentsCache
}

func TestEnsureReady(t *testing.T) {
	type write struct {
		resource        schema.GroupResource
		resourceVersion string
	}
	for name, test := range map[string]struct {
		ownersAt, deploymentsAt string
		writes                  []write
		want                    error
	}{
		"no write":                     {ownersAt: "1", deploymentsAt: "1"},
		"older than the write":         {ownersAt: "99", deploymentsAt: "1000", writes: []write{{owners, "100"}}, want: ErrStale},
		"at the write":                 {ownersAt: "100", deploymentsAt: "1", writes: []write{{owners, "100"}}},
		"newer than the write":         {ownersAt: "101", deploymentsAt: "1", writes: []write{{owners, "100"}}},
		"older than the last write":    {ownersAt: "100", deploymentsAt: "1", writes: []write{{owners, "100"}, {owners, "102"}}, want: ErrStale},
		"one of two caches stale":      {ownersAt: "100", deploymentsAt: "99", writes: []write{{owners, "100"}, {deployments, "100"}}, want: ErrStale},
		"the other of two":             {ownersAt: "99", deploymentsAt: "100", writes: []write{{owners, "100"}, {deployments, "100"}}, want: ErrStale},
		"both caches new enough":       {ownersAt: "100", deploymentsAt: "100", writes: []write{{owners, "100"}, {deployments, "100"}}},
		"longer number is newer":       {ownersAt: "999", deploymentsAt: "1", writes: []write{{owners, "1000"}}, want: ErrStale},
		"unknown version of the cache": {ownersAt: "", deploymentsAt: "1", writes: []write{{owners, "100"}}, want: ErrStale},
		"unknown version of the write": {ownersAt: "1", deploymentsAt: "1", writes: []write{{owners, ""}}},
		"both versions unknown":        {ownersAt: "", deploymentsAt: "1", writes: []write{{owners, ""}}},
		"version is no number":         {ownersAt: "a", deploymentsAt: "1", writes: []write{{owners, "100"}}},
	} {
		t.Run(name, func(t *testing.T) {
			store, _, _ := newTestStore(test.ownersAt, test.deploymentsAt)
			store.WroteAt(cache.NewObjectName("default", "another"), owners, "5000")
			for _, write := range test.writes {
				store.WroteAt(owner, write.resource, write.resourceVersion)
			}
			if err := store.EnsureReady(owner); !errors.Is(err, test.want) {
				t.Errorf("EnsureReady() = %v, want %v", err, test.want)
			}
		})
	}
}

func TestEnsureReadyAfterCatchingUp(t *testing.T) {
	store, ownersCache, _ := newTestStore("9", "9")
	store.WroteAt(owner, owners, "10")
	if err := store.EnsureReady(owner); !errors.Is(err, ErrStale) {
		t.Errorf("EnsureReady() = %v while the cache is stale, want %v", err, ErrStale)
	}
	ownersCache.at = "10"
	if err := store.EnsureReady(owner); err != nil {
		t.Errorf("EnsureReady() = %v once the cache has caught up", err)
	}
	ownersCache.at = "9" // etcd was restored from a snapshot.
	if err := store.EnsureReady(owner); err != nil {
		t.Errorf("EnsureReady() = %v for a write that the cache has had", err)
	}
	if len(store.writes) != 0 {
		t.Errorf("writes = %v once the cache has caught up, want none", store.writes)
	}
	store.WroteAt(owner, owners, "11")
	if err := store.EnsureReady(owner); !errors.Is(err, ErrStale) {
		t.Errorf("EnsureReady() = %v after another write, want %v", err, ErrStale)
	}
}

func TestStaleCacheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
		store, _, _ := newTestStore("9", "9")
		store.WroteAt(owner, owners, "10")
		time.Sleep(staleCacheTimeout - time.Nanosecond) // By the fake clock of the bubble.
		if err := store.EnsureReady(owner); !errors.Is(err, ErrStale) {
			t.Errorf("EnsureReady() = %v just before the timeout, want %v", err, ErrStale)
		}
		time.Sleep(time.Nanosecond)
		if err := store.EnsureReady(owner); err != nil {
			t.Errorf("EnsureReady() = %v at the timeout", err)
		}
	})
}

func TestUnknownVersionsAreLogged(t *testing.T) {
	for _, known := range []bool{true, false} {
		featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, known)
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		NewConsistencyStore(logger)
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		if logged := strings.Contains(log, "KUBE_FEATURE_AtomicFIFO") && strings.Contains(log, `delay="1m0s"`); logged == known {
			t.Errorf("log = %q with AtomicFIFO=%t, want the delay exactly without it", log, known)
		}
	}
}

// A skipped sync counts for the resource whose cache is stale.
func TestStaleSyncSkips(t *testing.T) {
	skips := func() map[string]float64 {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		skips := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "sample_controller_stale_sync_skips_total" {
					skips[metric.GetLabel()[0].GetValue()+"/"+metric.GetLabel()[1].GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
		return skips
	}
	store, _, _ := newTestStore("1", "1")
	before := skips()
	store.WroteAt(owner, deployments, "2")
	if err := store.EnsureReady(owner); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	after := skips()
	if _, hasOwners := before["example.com/owners"]; !hasOwners || after["example.com/owners"] != before["example.com/owners"] ||
		after["apps/deployments"] != before["apps/deployments"]+1 {
		t.Errorf("skips = %v, before %v, want one more of deployments", after, before)
	}
}

// An owner is missed if the cache has reached a write of what it owns, and no sync has followed.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ownersCache, deploymentsCache := newTestStore("1", "1")
		verifyMissed := func(when string, want ...cache.ObjectName) {
			t.Helper()
			if got := store.Missed(owners); !slices.Equal(got, want) {
				t.Errorf("%s: Missed() = %v, want %v", when, got, want)
			}
		}
		store.WroteAt(owner, deployments, "2")
		store.WroteAt(cache.NewObjectName("default", "status"), owners, "3")
		ownersCache.at = "3"
		time.Sleep(missedDelay)
		verifyMissed("stale cache")
		deploymentsCache.at = "2"
		verifyMissed("the cache has reached it", owner)
		if err := store.EnsureReady(owner); err != nil {
			t.Error(err)
		}
		verifyMissed("synced")
		store.WroteAt(owner, deployments, "2")
		verifyMissed("just written")
	})
}

func TestListNewest(t *testing.T) {
	for asked, want := range map[string]string{"0": "", "": "", "7": "7"} {
		options := &metav1.ListOptions{ResourceVersion: asked}
		if ListNewest(options); options.ResourceVersion != want {
			t.Errorf("the resourceVersion for %q is %q, want %q", asked, options.ResourceVersion, want)
		}
	}
}
