// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership tells which Deployments belong to which Foo, and makes informers' caches able to.
package ownership

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// FooKind is what the owner references to a Foo call it.
var FooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

// FooOf returns the controller reference of an object if it is one to a Foo, of whatever version, and nil otherwise.
func FooOf(object metav1.Object) *metav1.OwnerReference {
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

// The names of the indexes: of Deployments by the UID of the Foo that controls them, and of Foos by the namespace/name of
// the Deployment that they want.
const (
	ByFooUID         = "fooUID"
	ByDeploymentName = "deploymentName"
)

// DeploymentIndexers are the indexes for a cache of Deployments.
var DeploymentIndexers = cache.Indexers{ByFooUID: func(obj any) ([]string, error) {
	if owner := FooOf(obj.(metav1.Object)); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}}

// FooIndexers are the indexes for a cache of Foos.
var FooIndexers = cache.Indexers{ByDeploymentName: func(obj any) ([]string, error) {
	foo := obj.(*samplev1alpha1.Foo)
	return []string{cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()}, nil
}}
