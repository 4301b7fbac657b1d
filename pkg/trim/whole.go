// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/cache"
)

// wholeOf returns a trimmed Deployment, or the tombstone of one, as a Deployment, and anything else as it is.
func wholeOf(obj any) any {
	switch object := obj.(type) {
	case interface{ whole() *appsv1.Deployment }:
		return object.whole()
	case cache.DeletedFinalStateUnknown:
		return cache.DeletedFinalStateUnknown{Key: object.Key, Obj: wholeOf(object.Obj)}
	}
	return obj
}

func allWhole(items []any) []any {
	for i := range items { // The slice is the caller's, not the indexer's.
		items[i] = wholeOf(items[i])
	}
	return items
}

// Whole returns the indexer of an informer whose objects are trimmed as one from which Deployments are read.
func Whole(indexer cache.Indexer) cache.Indexer { return wholeIndexer{indexer} }

type wholeIndexer struct{ cache.Indexer }

// Get implements cache.Store.
func (w wholeIndexer) Get(obj any) (any, bool, error) {
	item, exists, err := w.Indexer.Get(obj)
	return wholeOf(item), exists, err
}

// GetByKey implements cache.Store.
func (w wholeIndexer) GetByKey(key string) (any, bool, error) {
	item, exists, err := w.Indexer.GetByKey(key)
	return wholeOf(item), exists, err
}

// List implements cache.Store.
func (w wholeIndexer) List() []any { return allWhole(w.Indexer.List()) }

// Index implements cache.Indexer.
func (w wholeIndexer) Index(indexName string, obj any) ([]any, error) {
	items, err := w.Indexer.Index(indexName, obj)
	return allWhole(items), err
}

// ByIndex implements cache.Indexer.
func (w wholeIndexer) ByIndex(indexName, indexedValue string) ([]any, error) {
	items, err := w.Indexer.ByIndex(indexName, indexedValue)
	return allWhole(items), err
}

// Handler returns a handler for an informer whose objects are trimmed, which hands Deployments on to another.
func Handler(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	return wholeHandler{handler}
}

type wholeHandler struct{ handler cache.ResourceEventHandler }

// OnAdd implements cache.ResourceEventHandler.
func (w wholeHandler) OnAdd(obj any, isInInitialList bool) {
	w.handler.OnAdd(wholeOf(obj), isInInitialList)
}

// OnUpdate implements cache.ResourceEventHandler.
func (w wholeHandler) OnUpdate(oldObj, newObj any) {
	w.handler.OnUpdate(wholeOf(oldObj), wholeOf(newObj))
}

// OnDelete implements cache.ResourceEventHandler.
func (w wholeHandler) OnDelete(obj any) { w.handler.OnDelete(wholeOf(obj)) }
