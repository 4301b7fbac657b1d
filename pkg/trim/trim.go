// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package trim keeps informers' caches small: what the controller does not read is not kept, and what many objects have in
// common is kept once.
package trim

import (
	"slices"
	"unique"

	appsv1 "k8s.io/api/apps/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Transform is a cache.TransformFunc. Of a Deployment that a Foo controls it keeps what is compared with the Foo's wish, what
// the Foo's status tells, and what a write must be conditional on; of any other, which is never written, that it is there. Both
// become something smaller than a Deployment, which takes more than a kilobyte even if it is empty: listers of Deployments have
// to read through Whole, and handlers to be given to Handler. Of a Foo it drops the managed fields.
func Transform(obj any) (any, error) {
	switch object := obj.(type) {
	case *appsv1.Deployment:
		return trimmed(object), nil
	case *samplev1alpha1.Foo:
		return foo(object), nil
	}
	return obj, nil // What has been through here before: client-go passes the objects of a streamed list twice.
}

func foo(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo {
	foo.ManagedFields = nil
	foo.Kind, foo.APIVersion, foo.Namespace = shared(foo.Kind), shared(foo.APIVersion), shared(foo.Namespace)
	foo.Spec.DeploymentName = sameAs(foo.Name, foo.Spec.DeploymentName)
	foo.Status.Conditions = slices.Clone(foo.Status.Conditions) // In an array of its own length: decoding makes room for more.
	for i := range foo.Status.Conditions {
		condition := &foo.Status.Conditions[i]
		condition.Type, condition.Status = shared(condition.Type), shared(condition.Status)
		condition.Reason, condition.Message = shared(condition.Reason), shared(condition.Message)
	}
	return foo
}

// shared returns a string of which the objects that are read at about the same time hold but one copy.
func shared[S ~string](s S) S { return unique.Make(s).Value() }

// sameAs returns s, in the memory of model if they are equal. It costs less than shared, and finds less.
func sameAs(model, s string) string {
	if s == model {
		return model
	}
	return s
}
