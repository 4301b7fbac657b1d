// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership finds the Foo that controls an object, what a Foo controls, and who waits for a name.
package ownership

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

// FooKind is the group, version and kind in owner references to a Foo.
var FooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

// ControllerRef returns the controller reference of an object if it refers to a Foo, of any version, or nil.
func ControllerRef(object metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != FooKind.GroupKind() {
		return nil
	}
	return ref
}

// IsControlledBy reports whether a Foo controls an object. Unlike that of metav1, it takes no other kind with the UID for a Foo.
func IsControlledBy(object metav1.Object, foo *samplev1alpha1.Foo) bool {
	ref := ControllerRef(object)
	return ref != nil && ref.UID == foo.UID
}

// ResolveControllerRef returns the Foo that controls an object, or nil if there is none or it is gone.
func ResolveControllerRef(foos listers.FooLister, object metav1.Object) *samplev1alpha1.Foo {
	controllerRef := ControllerRef(object)
	if controllerRef == nil {
		return nil
	}
	foo, err := foos.Foos(object.GetNamespace()).Get(controllerRef.Name)
	if err != nil || foo.UID != controllerRef.UID {
		return nil
	}
	return foo
}

// Index finds objects of one kind by a value that is computed from each.
type Index[T metav1.Object] struct {
	name    string
	indexer cache.TypedIndexer[T]
}

// Informer is what an index needs of the typed informer of a kind.
type Informer[T any] interface {
	AddTypedIndexers(indexers cache.TypedIndexers[T]) error
	GetTypedIndexer() cache.TypedIndexer[T]
}

// NewIndex adds an index to an informer, unless it has it already from another controller. valueOf returns the
// value of an object, or "" if it has none.
func NewIndex[T metav1.Object](informer Informer[T], name string, valueOf func(T) string) *Index[T] {
	// This fails if the informer has the index already. If it has none, the first use of the index panics.
	_ = informer.AddTypedIndexers(cache.TypedIndexers[T]{name: func(object T) ([]string, error) {
		if value := valueOf(object); value != "" {
			return []string{value}, nil
		}
		return nil, nil
	}})
	return &Index[T]{name, informer.GetTypedIndexer()}
}

// NewControllerIndex returns an index of the objects that Foos control, by the UID of the Foo.
func NewControllerIndex[T metav1.Object](informer Informer[T]) *Index[T] {
	return NewIndex(informer, "fooUID", func(object T) string {
		if ref := ControllerRef(object); ref != nil {
			return string(ref.UID)
		}
		return ""
	})
}

// Get returns the objects that have a value.
func (i *Index[T]) Get(value string) []T {
	objects, err := i.indexer.ByTypedIndex(i.name, value)
	utilruntime.Must(err) // NewIndex has added the index.
	return objects
}

// Superseded returns the objects of a controller index that a Foo controls under other names than the desired one,
// newest first, without those that are being deleted.
func (i *Index[T]) Superseded(foo *samplev1alpha1.Foo, desired string) []T {
	superseded := slices.DeleteFunc(i.Get(string(foo.UID)), func(object T) bool {
		return object.GetNamespace() != foo.Namespace || object.GetName() == desired || object.GetDeletionTimestamp() != nil
	})
	slices.SortFunc(superseded, func(a, b T) int { // Of two of one second, the newer has probably changed last.
		lastChanged, _ := resourceversion.CompareResourceVersion(b.GetResourceVersion(), a.GetResourceVersion())
		created := b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
		return cmp.Or(created, lastChanged, cmp.Compare(a.GetName(), b.GetName()))
	})
	return superseded
}
