// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	selection "k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"k8s.io/sample-controller/pkg/ownership"
)

// transformed returns a Deployment that a Foo controls, and one that none does, as caches keep them.
func transformed(t *testing.T) (ours, foreign any) {
	t.Helper()
	alien := deployment()
	alien.Name, alien.OwnerReferences = "foreign", nil
	ours, err := Transform(deployment())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err = Transform(alien)
	if err != nil {
		t.Fatal(err)
	}
	return ours, foreign
}

func TestAListerReadsDeployments(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := indexer.AddIndexers(ownership.DeploymentIndexers); err != nil {
		t.Fatal(err)
	}
	ours, foreign := transformed(t)
	for _, object := range []any{ours, foreign} {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	deployments := Whole(indexer)
	lister := appslisters.NewDeploymentLister(deployments)
	for range 2 { // Reading changes nothing.
		for name, owners := range map[string]int{"example": 1, "foreign": 0} {
			got, err := lister.Deployments("default").Get(name)
			if err != nil || got.Name != name || len(got.OwnerReferences) != owners {
				t.Errorf("Get(%q) = %v, %v, want it with %d owners", name, got, err, owners)
			}
		}
		all, err := lister.List(selection.Everything())
		if err != nil || len(all) != 2 {
			t.Errorf("List() = %v, %v, want two Deployments", all, err)
		}
		all, err = lister.Deployments("default").List(selection.Everything())
		if err != nil || len(all) != 2 {
			t.Errorf("List() of the namespace = %v, %v, want two Deployments", all, err)
		}
		item, exists, err := deployments.Get(deployment())
		if _, ok := item.(*appsv1.Deployment); !ok || !exists || err != nil {
			t.Errorf("Get() = %v, %v, %v, want a Deployment", item, exists, err)
		}
		items, err := deployments.ByIndex("fooUID", string(owner.UID))
		if err != nil || len(items) != 1 || items[0].(*appsv1.Deployment).Name != "example" {
			t.Errorf("ByIndex() = %v, %v, want the Deployment of the Foo", items, err)
		}
	}
	if _, exists, err := deployments.GetByKey("default/gone"); exists || err != nil {
		t.Errorf("GetByKey() of a Deployment that is gone = %v, %v", exists, err)
	}
}

func TestAHandlerIsHandedDeployments(t *testing.T) {
	var got []any
	handler := Handler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, isInInitialList bool) { got = append(got, obj, isInInitialList) },
		UpdateFunc: func(oldObj, newObj any) { got = append(got, oldObj, newObj) },
		DeleteFunc: func(obj any) { got = append(got, obj) },
	})
	ours, foreign := transformed(t)
	handler.OnAdd(ours, true)
	handler.OnUpdate(foreign, ours)
	handler.OnDelete(ours)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/foreign", Obj: foreign})
	want := []any{
		wholeOf(ours), true, wholeOf(foreign), wholeOf(ours), wholeOf(ours), cache.DeletedFinalStateUnknown{Key: "default/foreign", Obj: wholeOf(foreign)},
	}
	if _, ok := want[0].(*appsv1.Deployment); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("the handler was handed %v, want %v", got, want)
	}
}
