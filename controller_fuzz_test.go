// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/ownership"
)

// FuzzSyncHandler syncs any Foo among any Deployments. A Deployment that the Foo does not control is never changed, and after a few
// syncs there is nothing left to do.
func FuzzSyncHandler(f *testing.F) {
	random := rand.NewChaCha8([32]byte{})
	for range 300 {
		data := make([]byte, 40)
		_, _ = random.Read(data) // It never fails.
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		foo := anyFoo(&c)
		existing := objects{foo}
		for _, name := range []string{"a", "b", "c"} {
			if pick(&c, true, false) {
				existing = append(existing, anyDeployment(&c, name))
			}
		}
		synctest.Test(t, func(t *testing.T) { // The clock stands still, and a backoff does not end.
			f := newFixture(t, existing...)
			var err error
			for range 3 { // Create or correct, prune, and report.
				err = f.syncHandler(t.Context(), objectRef)
				f.fillCaches(t)
			}
			if again := f.syncHandler(t.Context(), objectRef); (again == nil) != (err == nil) {
				t.Errorf("error = %v, and then %v of the same state", err, again)
			}
			if requests := f.takeRequests(); err == nil && len(requests) > 0 {
				t.Errorf("requests = %q although nothing is left to do", requests)
			}
			for _, object := range existing[1:] {
				before := object.(*appsv1.Deployment)
				if ownership.Controls(foo, before) {
					continue
				}
				if after := f.deployment(t, before.Name); !equality.Semantic.DeepEqual(before, after) {
					t.Errorf("a Deployment that the Foo does not control was changed from %v to %v", before, after)
				}
			}
		})
	})
}

// choices makes choices of the bytes of a fuzzer, and the first of each when there are no more.
type choices []byte

func pick[T any](c *choices, from ...T) T {
	if len(*c) == 0 {
		return from[0]
	}
	first := int((*c)[0])
	*c = (*c)[1:]
	return from[first%len(from)]
}

// anyFoo returns a Foo with any spec, valid or not, and any status.
func anyFoo(c *choices) *samplev1alpha1.Foo {
	stalled := func(reason string) option {
		return func(object metav1.Object) {
			foo := object.(*samplev1alpha1.Foo)
			foo.Status = foostatus.New(foo, nil, &foostatus.StalledError{Reason: reason, Message: "message"})
		}
	}
	foo := newFoo(
		withGeneration(pick[int64](c, 1, 2, 3)),
		withDeploymentName(pick(c, "a", "b", "c", "")),
		pick(c, withoutReplicas, withReplicas(1), withReplicas(0), withReplicas(3), withReplicas(-1)),
		pick(c, unchanged, observing(newDeploymentFor(newFoo(), available)), stalled(foostatus.DeploymentRejected), stalled(foostatus.DeploymentOverridden)),
		pick(c, unchanged, unchanged, unchanged, deleting))
	foo.Status.ObservedGeneration = pick[int64](c, 0, 1, 2, 3)
	return foo
}

// anyDeployment returns a Deployment with any controller, in any state.
func anyDeployment(c *choices, name string) *appsv1.Deployment {
	d := newDeploymentFor(newFoo(), withName(name), pick(c, unchanged, withoutLabels, notControlled),
		pick(c, unchanged, withImage("apache"), withContainerName("renamed")), pick(c, unchanged, unchanged, unchanged, deleting))
	pick(c, func() {}, func() { d.Spec.Selector = nil }, func() { d.Spec.Template.Labels = nil }, func() { d.Spec.Template.Spec.Containers = nil })()
	for i := range d.OwnerReferences {
		ref := &d.OwnerReferences[i]
		pick(c, func() {}, func() { ref.UID = "another-uid" }, func() { ref.Kind = "Bar" }, func() { ref.Controller = nil })()
	}
	d.Spec.Replicas = pick(c, nil, new(int32(0)), new(int32(1)), new(int32(3)))
	d.Generation, d.Status.ObservedGeneration = pick[int64](c, 0, 1, 2), pick[int64](c, 0, 1, 2)
	for _, replicas := range []*int32{&d.Status.Replicas, &d.Status.UpdatedReplicas, &d.Status.AvailableReplicas} {
		*replicas = pick[int32](c, 0, 1, 2, 3)
	}
	return d
}
