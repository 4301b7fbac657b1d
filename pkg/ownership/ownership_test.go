// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

func newFoo(namespace, name, uid string) *samplev1alpha1.Foo {
	return &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: "current"},
	}
}

func newDeployment(namespace, name string, created int64, foo *samplev1alpha1.Foo) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(created, 0),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, FooKind)},
	}}
}

// newIndex returns the second index of an informer with the given objects.
func newIndex(t *testing.T, deployments ...any) *Index[*appsv1.Deployment] {
	t.Helper()
	informer := appsinformers.NewTypedDeploymentInformer(nil, "", 0, nil)
	NewControllerIndex(informer)
	index := NewControllerIndex(informer)
	add(t, informer.GetIndexer(), deployments...)
	return index
}

func add(t *testing.T, indexer cache.Indexer, objects ...any) {
	t.Helper()
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestControllerRef(t *testing.T) {
	foo := newFoo("default", "example-foo", "uid")
	for name, test := range map[string]struct {
		change func(*metav1.OwnerReference)
		want   bool // Is it a Foo that controls the object?
	}{
		"this Foo":                   {func(*metav1.OwnerReference) {}, true},
		"Foo of another API version": {func(ref *metav1.OwnerReference) { ref.APIVersion = "samplecontroller.k8s.io/v1" }, true},
		"earlier Foo of the name":    {func(ref *metav1.OwnerReference) { ref.UID = "earlier-uid" }, true},
		"Foo of another group":       {func(ref *metav1.OwnerReference) { ref.APIVersion = "other." + ref.APIVersion }, false},
		"another kind":               {func(ref *metav1.OwnerReference) { ref.Kind = "ReplicaSet" }, false},
		"owner but not controller":   {func(ref *metav1.OwnerReference) { ref.Controller = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := metav1.NewControllerRef(foo, FooKind)
			test.change(ref)
			another := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "another", UID: "another-uid"}
			object := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{another, *ref}}
			got := ControllerRef(object)
			if (got != nil) != test.want || got != nil && got.UID != ref.UID {
				t.Errorf("ControllerRef() = %v, want it: %v", got, test.want)
			}
		})
	}
	if got := ControllerRef(&metav1.ObjectMeta{}); got != nil {
		t.Errorf("ControllerRef() = %v of an object without owners", got)
	}
}

// The order does not depend on that of an index, which has none: otherwise a status would report each of them in turns.
func TestSuperseded(t *testing.T) {
	foo := newFoo("default", "foo", "uid")
	deleted := newDeployment("default", "deleted", 5, foo)
	deleted.DeletionTimestamp = new(metav1.Unix(6, 0))
	notControlled := newDeployment("default", "not-controlled", 5, foo)
	notControlled.OwnerReferences = nil
	changedFirst, changedLast := newDeployment("default", "a", 2, foo), newDeployment("default", "b", 2, foo)
	changedFirst.ResourceVersion, changedLast.ResourceVersion = "9", "10"
	index := newIndex(t, deleted, notControlled, changedFirst, changedLast, newDeployment("default", "newest", 3, foo),
		newDeployment("default", "current", 4, foo), newDeployment("other", "other-namespace", 5, foo),
		newDeployment("default", "earlier-foo", 5, newFoo("default", "foo", "earlier-uid")))
	for range 10 {
		var got []string
		for _, deployment := range index.Superseded(foo, "current") {
			got = append(got, deployment.Name)
		}
		if want := []string{"newest", "b", "a"}; !slices.Equal(got, want) {
			t.Fatalf("Superseded() = %q, want %q", got, want)
		}
	}
}

func TestIndex(t *testing.T) {
	renamed := newFoo("default", "renamed", "renamed-uid")
	renamed.Spec.DeploymentName = "other"
	none := newFoo("default", "none", "none-uid")
	none.Spec.DeploymentName = ""
	first, second := newFoo("default", "first", "first-uid"), newFoo("default", "second", "second-uid")
	informer := informers.NewTypedFooInformer(nil, "", 0, nil)
	index := NewIndex(informer, "name", func(foo *samplev1alpha1.Foo) string { return foo.Spec.DeploymentName })
	add(t, informer.GetIndexer(), first, second, renamed, none)
	if got := index.Get("current"); len(got) != 2 || !slices.Contains(got, first) || !slices.Contains(got, second) {
		t.Errorf("Get() = %v, want the two of that value", got)
	}
	if got := index.Get(""); len(got) > 0 {
		t.Errorf("Get() = %v, want none without a value", got)
	}
}

func TestResolveControllerRef(t *testing.T) {
	foo := newFoo("default", "foo", "uid")
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	add(t, indexer, foo)
	lister := listers.NewFooLister(indexer)
	notControlled := newDeployment("default", "a", 1, foo)
	notControlled.OwnerReferences = nil
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		want       *samplev1alpha1.Foo
	}{
		"controlled":        {newDeployment("default", "a", 1, foo), foo},
		"not controlled":    {notControlled, nil},
		"earlier Foo":       {newDeployment("default", "a", 1, newFoo("default", "foo", "earlier-uid")), nil},
		"Foo is gone":       {newDeployment("default", "a", 1, newFoo("default", "gone", "uid")), nil},
		"another namespace": {newDeployment("other", "a", 1, foo), nil},
	} {
		if got := ResolveControllerRef(lister, test.deployment); got != test.want {
			t.Errorf("%s: ResolveControllerRef() = %v, want %v", name, got, test.want)
		}
	}
}
