// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership finds the Foo that controls an object, what a Foo controls, and who waits for a name.
package ownership

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

// FooKind is the group, version and kind in owner references to a Foo.
var FooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

const byFooUID, byDeploymentName = "fooUID", "deploymentName"

var deploymentIndexers = appsinformers.DeploymentIndexers{
	byFooUID: func(deployment *appsv1.Deployment) ([]string, error) {
		if controllerRef := ControllerRef(deployment); controllerRef != nil {
			return []string{string(controllerRef.UID)}, nil
		}
		return nil, nil
	},
}

var fooIndexers = informers.FooIndexers{byDeploymentName: func(foo *samplev1alpha1.Foo) ([]string, error) {
	return []string{cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()}, nil
}}

// ControllerRef returns the controller reference of an object if it refers to a Foo, of any version, or nil.
func ControllerRef(object metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != FooKind.GroupKind() {
		return nil
	}
	return ref
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

// Index finds Deployments by the UID of the Foo that controls them, and Foos by the name of their Deployment.
type Index struct {
	deployments cache.TypedIndexer[*appsv1.Deployment]
	foos        cache.TypedIndexer[*samplev1alpha1.Foo]
}

// NewIndex adds the indexes to the informers, unless they have them already from another controller.
func NewIndex(deployments appsinformers.DeploymentIndexInformer, foos informers.FooIndexInformer) *Index {
	// This fails if an informer has the index already. If it has none, the first use of the index panics.
	_, _ = deployments.AddTypedIndexers(deploymentIndexers), foos.AddTypedIndexers(fooIndexers)
	return &Index{deployments.GetTypedIndexer(), foos.GetTypedIndexer()}
}

// Superseded returns the Deployments that a Foo controls under other names than spec.deploymentName, newest
// first, without those that are being deleted.
func (i *Index) Superseded(foo *samplev1alpha1.Foo) []*appsv1.Deployment {
	controlled, err := i.deployments.ByTypedIndex(byFooUID, string(foo.UID))
	utilruntime.Must(err) // NewIndex has added the index.
	superseded := slices.DeleteFunc(controlled, func(d *appsv1.Deployment) bool {
		return d.Namespace != foo.Namespace || d.Name == foo.Spec.DeploymentName || d.DeletionTimestamp != nil
	})
	slices.SortFunc(superseded, func(a, b *appsv1.Deployment) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return superseded
}

// FoosByDeploymentName returns the Foos in a Deployment's namespace whose spec.deploymentName is its name.
func (i *Index) FoosByDeploymentName(deployment cache.ObjectName) []*samplev1alpha1.Foo {
	foos, err := i.foos.ByTypedIndex(byDeploymentName, deployment.String())
	utilruntime.Must(err) // NewIndex has added the index.
	return foos
}
