// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// BenchmarkNoOpSync is the sync of a Foo that is as it should be: what a resync costs for each Foo.
func BenchmarkNoOpSync(b *testing.B) {
	f := newFixture(b, foo(ready), deployment(available))
	objectRef := cache.NewObjectName("default", "example-foo")
	b.ReportAllocs()
	for b.Loop() {
		if err := f.syncHandler(b.Context(), objectRef); err != nil {
			b.Fatal(err)
		}
	}
	if requests := f.requests(); len(requests) > 0 {
		b.Fatalf("this was not a sync without a change: %v", requests)
	}
}

// BenchmarkHandlers is what a notification costs before its Foo is in the workqueue, or is found not to have to be.
func BenchmarkHandlers(b *testing.B) {
	cachedFoo, owned, alien := foo(ready), deployment(available), deployment(foreign)
	changed := owned.DeepCopy()
	changed.ResourceVersion = "8"
	changed.Labels["team"] = "a"
	rolled := owned.DeepCopy()
	rolled.ResourceVersion = "9"
	rolled.Status.AvailableReplicas--
	for name, handle := range map[string]func(f *fixture){
		"a Foo is added":                         func(f *fixture) { f.handleFooAdd(cachedFoo, false) },
		"a Foo is updated":                       func(f *fixture) { f.handleFooUpdate(cachedFoo, cachedFoo) },
		"a Deployment is added":                  func(f *fixture) { f.handleDeploymentAdd(owned, false) },
		"a foreign Deployment is added":          func(f *fixture) { f.handleDeploymentAdd(alien, false) },
		"a Deployment is resynced":               func(f *fixture) { f.handleDeploymentUpdate(owned, owned) },
		"the spec of a Deployment is updated":    func(f *fixture) { f.handleDeploymentUpdate(owned, changed) },
		"the status of a Deployment is updated":  func(f *fixture) { f.handleDeploymentUpdate(owned, rolled) },
		"a Deployment is deleted":                func(f *fixture) { f.handleDeploymentDelete(owned) },
		"a Deployment that Foos want is deleted": func(f *fixture) { f.handleDeploymentDelete(alien) },
	} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, cachedFoo, owned)
			b.ReportAllocs()
			for b.Loop() {
				handle(f)
			}
		})
	}
}

// BenchmarkCache is what the caches keep for a Foo with its Deployment, and for a Deployment that no Foo controls.
func BenchmarkCache(b *testing.B) {
	const count = 10000
	fill := func(b *testing.B, f *fixture, i int, alien bool) {
		name := fmt.Sprintf("foo-%06d", i)
		rename := func(object metav1.Object) {
			object.SetName(name)
			object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
			object.SetResourceVersion(fmt.Sprint(i))
		}
		cachedFoo := foo(ready, func(foo *samplev1alpha1.Foo) { rename(foo); foo.Spec.DeploymentName = name })
		cachedDeployment := newDeployment(cachedFoo)
		rename(cachedDeployment)
		if alien {
			foreign(cachedDeployment)
		}
		if err := f.deploymentsIndexer.Add(trimmed(b, decoded(b, cachedDeployment, &appsv1.Deployment{}))); err != nil {
			b.Fatal(err)
		}
		if alien {
			return
		}
		if err := f.foosIndexer.Add(trimmed(b, decoded(b, cachedFoo, &samplev1alpha1.Foo{}))); err != nil {
			b.Fatal(err)
		}
	}
	for name, alien := range map[string]bool{"a Foo": false, "a foreign Deployment": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f := newFixture(b)
				before := heap()
				for i := range count {
					fill(b, f, i, alien)
				}
				b.ReportMetric(float64(heap()-before)/count, "B/object")
				runtime.KeepAlive(f)
			}
		})
	}
}

// decoded returns an object as it comes from the API server, with no memory in common with others.
func decoded(b *testing.B, object, into any) any {
	encoded, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(encoded, into); err != nil {
		b.Fatal(err)
	}
	return into
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
