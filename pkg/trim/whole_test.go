// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	selection "k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
)

func TestAListerReadsDeploymentsOfOtherPeople(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	foreign := owned()
	foreign.Name, foreign.OwnerReferences = "foreign", nil
	for _, deployment := range []*appsv1.Deployment{owned(), foreign} {
		trimmed, err := Transform(deployment)
		if err != nil {
			t.Fatal(err)
		}
		if err := indexer.Add(trimmed); err != nil {
			t.Fatal(err)
		}
	}
	lister := appslisters.NewDeploymentLister(Whole(indexer))
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
	}
}
