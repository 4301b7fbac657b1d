// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/cache"
)

// Whole returns what a lister of Deployments reads from an indexer of trimmed ones: those that no Foo controls are Deployments
// again.
func Whole(indexer cache.Indexer) cache.Indexer { return whole{indexer} }

type whole struct{ cache.Indexer }

// GetByKey implements cache.Store.
func (w whole) GetByKey(key string) (any, bool, error) {
	item, exists, err := w.Indexer.GetByKey(key)
	return wholeOf(item), exists, err
}

// List implements cache.Store.
func (w whole) List() []any { return allWhole(w.Indexer.List()) }

// Index implements cache.Indexer.
func (w whole) Index(indexName string, obj any) ([]any, error) {
	items, err := w.Indexer.Index(indexName, obj)
	return allWhole(items), err
}

func allWhole(items []any) []any {
	for i := range items { // The slice is the caller's, not the indexer's.
		items[i] = wholeOf(items[i])
	}
	return items
}

func wholeOf(item any) any {
	if foreign, ok := item.(*foreign); ok {
		return &appsv1.Deployment{ObjectMeta: *foreign.metadata()}
	}
	return item
}
