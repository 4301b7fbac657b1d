// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership finds, in informers' caches, the Deployments of a Foo, the Foo that controls an object, and the Foos that desire a
// Deployment.
package ownership

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

const (
	byFooUID         = "fooUID"
	byDeploymentName = "deploymentName"
)

// DeploymentIndexers index Deployments by the UID of the Foo that controls them.
var DeploymentIndexers = cache.Indexers{byFooUID: func(obj any) ([]string, error) {
	if controllerRef := samplev1alpha1.ControllerRef(obj.(*appsv1.Deployment)); controllerRef != nil {
		return []string{string(controllerRef.UID)}, nil
	}
	return nil, nil
}}

// FooIndexers index Foos by the namespace/name of the Deployment that they desire.
var FooIndexers = cache.Indexers{byDeploymentName: func(obj any) ([]string, error) {
	foo := obj.(*samplev1alpha1.Foo)
	return []string{cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()}, nil
}}

// ResolveControllerRef returns the Foo that controls an object, or nil if there is none, or it no longer exists: then the garbage
// collector deletes the object.
func ResolveControllerRef(foos listers.FooLister, object metav1.Object) *samplev1alpha1.Foo {
	controllerRef := samplev1alpha1.ControllerRef(object)
	if controllerRef == nil {
		return nil
	}
	foo, err := foos.Foos(object.GetNamespace()).Get(controllerRef.Name)
	if err != nil || foo.UID != controllerRef.UID {
		return nil
	}
	return foo
}

// Superseded returns the Deployments that a Foo controls under other names than the one in its spec, newest first, from a cache with
// DeploymentIndexers.
func Superseded(deployments cache.Indexer, foo *samplev1alpha1.Foo) (superseded []*appsv1.Deployment) {
	controlled, err := deployments.ByIndex(byFooUID, string(foo.UID))
	utilruntime.Must(err) // The index exists.
	for _, obj := range controlled {
		deployment := obj.(*appsv1.Deployment)
		if deployment.Namespace == foo.Namespace && deployment.Name != foo.Spec.DeploymentName && deployment.DeletionTimestamp == nil {
			superseded = append(superseded, deployment)
		}
	}
	slices.SortFunc(superseded, func(a, b *appsv1.Deployment) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return superseded
}

// FoosDesiring returns the Foos that desire a Deployment of a name, from a cache with FooIndexers.
func FoosDesiring(foos cache.Indexer, deployment cache.ObjectName) (desiring []*samplev1alpha1.Foo) {
	objects, err := foos.ByIndex(byDeploymentName, deployment.String())
	utilruntime.Must(err) // The index exists.
	for _, obj := range objects {
		desiring = append(desiring, obj.(*samplev1alpha1.Foo))
	}
	return desiring
}
