// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
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
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, samplev1alpha1.FooKind)},
	}}
}

func newIndexer(t *testing.T, indexers cache.Indexers, objects ...any) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

// The order does not depend on that of an index, which has none: otherwise a status would report each of them in turns.
func TestSuperseded(t *testing.T) {
	foo := newFoo("default", "foo", "uid")
	deleted := newDeployment("default", "deleted", 5, foo)
	deleted.DeletionTimestamp = new(metav1.Unix(6, 0))
	notControlled := newDeployment("default", "not-controlled", 5, foo)
	notControlled.OwnerReferences = nil
	indexer := newIndexer(t, DeploymentIndexers, deleted, notControlled,
		newDeployment("default", "b", 2, foo), newDeployment("default", "a", 2, foo), newDeployment("default", "newest", 3, foo),
		newDeployment("default", "current", 4, foo), newDeployment("other", "other-namespace", 5, foo),
		newDeployment("default", "earlier-foo", 5, newFoo("default", "foo", "earlier-uid")))
	for range 10 {
		var got []string
		for _, deployment := range Superseded(indexer, foo) {
			got = append(got, deployment.Name)
		}
		if want := []string{"newest", "a", "b"}; !slices.Equal(got, want) {
			t.Fatalf("Superseded() = %q, want %q", got, want)
		}
	}
}

func TestFoosDesiring(t *testing.T) {
	renamed := newFoo("default", "renamed", "renamed-uid")
	renamed.Spec.DeploymentName = "other"
	first, second := newFoo("default", "first", "first-uid"), newFoo("default", "second", "second-uid")
	indexer := newIndexer(t, FooIndexers, first, second, renamed, newFoo("other", "first", "other-uid"))
	got := FoosDesiring(indexer, cache.NewObjectName("default", "current"))
	if len(got) != 2 || !slices.Contains(got, first) || !slices.Contains(got, second) {
		t.Errorf("FoosDesiring() = %v, want the two of that namespace that desire the Deployment", got)
	}
}

func TestResolveControllerRef(t *testing.T) {
	foo := newFoo("default", "foo", "uid")
	lister := listers.NewFooLister(newIndexer(t, FooIndexers, foo))
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
