// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership tells which Deployments belong to which Foo, and makes informers' caches able to.
package ownership

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

// FooKind is what the owner references to a Foo call it.
var FooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

// FooOf returns the controller reference of an object if it is one to a Foo, of whatever version, and nil otherwise.
func FooOf(obj any) *metav1.OwnerReference {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != FooKind.Kind {
		return nil
	}
	if group, _, _ := strings.Cut(owner.APIVersion, "/"); group != FooKind.Group {
		return nil
	}
	return owner
}

// Controls reports whether a Foo controls an object: a Foo of the same name that was there earlier, or an object of another
// kind, is not it.
func Controls(foo *samplev1alpha1.Foo, object metav1.Object) bool {
	owner := FooOf(object)
	return owner != nil && owner.UID == foo.UID
}

// ControllingFoo returns the Foo that controls an object, or the tombstone of one, and nil if that Foo is gone or there is none:
// what a Foo that is gone controlled is garbage collection's.
func ControllingFoo(foos listers.FooLister, obj any) *samplev1alpha1.Foo {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("a handler was given a %T, which is not an API object", obj))
		return nil
	}
	owner := FooOf(object)
	if owner == nil {
		return nil
	}
	foo, err := foos.Foos(object.GetNamespace()).Get(owner.Name)
	if err != nil || foo.UID != owner.UID {
		return nil
	}
	return foo
}

// The names of the indexes: of Deployments by the UID of the Foo that controls them, and of Foos that have a problem by the
// namespace/name of the Deployment that they want.
const (
	byFooUID      = "fooUID"
	byAwaitedName = "awaitedName"
)

// DeploymentIndexers are the indexes for a cache of Deployments. Most Deployments have the name of their Foo, under which they
// are found without an index: 10,000 of them would take 3 MB there.
var DeploymentIndexers = cache.Indexers{byFooUID: func(obj any) ([]string, error) {
	deployment, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if owner := FooOf(deployment); owner != nil && owner.Name != deployment.GetName() {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}}

// FooIndexers are the indexes for a cache of Foos.
var FooIndexers = cache.Indexers{byAwaitedName: func(obj any) ([]string, error) {
	foo := obj.(*samplev1alpha1.Foo)
	if !foostatus.HasProblem(foo) {
		return nil, nil // Only a Foo with a problem can be waiting for a name, and few have one.
	}
	return []string{cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()}, nil
}}

// OtherDeployments returns those of the Deployments that a Foo controls, in a cache with DeploymentIndexers, that have another
// name than the one that it wants, and are not being deleted.
func OtherDeployments(deployments cache.Indexer, foo *samplev1alpha1.Foo) []*appsv1.Deployment {
	var others []*appsv1.Deployment
	consider := func(key string) {
		if namespace, name, _ := strings.Cut(key, "/"); namespace != foo.Namespace || name == foo.Spec.DeploymentName {
			return
		}
		obj, exists, err := deployments.GetByKey(key)
		utilruntime.Must(err) // An indexer has no errors.
		if !exists {
			return
		}
		if deployment := obj.(*appsv1.Deployment); Controls(foo, deployment) && deployment.DeletionTimestamp == nil {
			others = append(others, deployment)
		}
	}
	keys, err := deployments.IndexKeys(byFooUID, string(foo.UID))
	utilruntime.Must(err) // The index is missing.
	for _, key := range keys {
		consider(key)
	}
	if foo.Name != foo.Spec.DeploymentName {
		consider(cache.MetaObjectToName(foo).String())
	}
	return others
}

// WaitingFoos returns the Foos, of a cache with FooIndexers, that have a problem and want the name of a Deployment, which may be
// the tombstone of one.
func WaitingFoos(foos cache.Indexer, deployment any) []any {
	objectRef, err := cache.DeletionHandlingObjectToName(deployment)
	if err != nil {
		utilruntime.HandleError(err)
		return nil
	}
	waiting, err := foos.ByIndex(byAwaitedName, objectRef.String())
	utilruntime.Must(err) // The index is missing.
	return waiting
}
