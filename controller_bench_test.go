// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/client-go/tools/cache"
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
		"a Foo is added":                         func(f *fixture) { f.enqueueFoo(cachedFoo) },
		"a Foo is updated":                       func(f *fixture) { f.handleFooUpdate(cachedFoo, cachedFoo) },
		"a Deployment is added":                  func(f *fixture) { f.handleObject(owned) },
		"a foreign Deployment is added":          func(f *fixture) { f.handleObject(alien) },
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
