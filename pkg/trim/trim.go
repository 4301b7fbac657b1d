// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package trim keeps informers' caches small: what the controller does not read is not kept, and what many objects have in
// common is kept once.
package trim

import (
	"maps"
	"slices"
	"sync/atomic"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

// Transform is a cache.TransformFunc. Of a Deployment that a Foo controls it keeps what is compared with the Foo's wish, what
// the Foo's status tells, and what a write must be conditional on; of any other, which is never written, that it is there, as
// something smaller: a Deployment takes more than a kilobyte even if it is empty. Of a Foo it drops the managed fields.
func Transform(obj any) (any, error) {
	switch object := obj.(type) {
	case *appsv1.Deployment:
		return deployment(object), nil
	case *samplev1alpha1.Foo:
		return foo(object), nil
	}
	return obj, nil // What has been through here before: client-go passes the objects of a streamed list twice.
}

// foreign is a Deployment that no Foo controls.
type foreign struct{ namespace, name, resourceVersion string }

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which informers and handlers know it.
func (f *foreign) GetObjectMeta() metav1.Object { return f.metadata() }

func (f *foreign) metadata() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: f.namespace, Name: f.name, ResourceVersion: f.resourceVersion}
}

func deployment(full *appsv1.Deployment) any {
	owner := ownership.FooOf(full)
	if owner == nil {
		return &foreign{shared(full.Namespace), full.Name, full.ResourceVersion}
	}
	kept := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: shared(full.Namespace), UID: full.UID, ResourceVersion: full.ResourceVersion,
			Generation: full.Generation, DeletionTimestamp: full.DeletionTimestamp, Labels: sharedLabels(full.Labels),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: shared(owner.APIVersion), Kind: shared(owner.Kind), Name: owner.Name, UID: owner.UID, Controller: &isController,
			}},
		},
		Spec: appsv1.DeploymentSpec{Replicas: full.Spec.Replicas, Selector: full.Spec.Selector},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: full.Status.ObservedGeneration, Replicas: full.Status.Replicas,
			UpdatedReplicas: full.Status.UpdatedReplicas, AvailableReplicas: full.Status.AvailableReplicas,
			Conditions: slices.Clone(full.Status.Conditions),
		},
	}
	for i := range kept.Status.Conditions {
		condition := &kept.Status.Conditions[i]
		condition.Type = shared(condition.Type)
		condition.Status, condition.Reason, condition.Message = shared(condition.Status), shared(condition.Reason), shared(condition.Message)
	}
	kept.Spec.Template.Labels = sharedLabels(full.Spec.Template.Labels)
	if maps.Equal(kept.Spec.Template.Labels, kept.Labels) {
		kept.Spec.Template.Labels = kept.Labels
	}
	if selector := full.Spec.Selector; selector != nil && maps.Equal(selector.MatchLabels, kept.Labels) {
		kept.Spec.Selector = &metav1.LabelSelector{MatchLabels: kept.Labels, MatchExpressions: selector.MatchExpressions}
	}
	kept.Spec.Template.Spec.Containers = sharedContainers(full.Spec.Template.Spec.Containers)
	return kept
}

// isController is what the owner references of all Deployments in the cache point at.
var isController = true

func foo(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo {
	foo.ManagedFields = nil
	foo.Kind, foo.APIVersion, foo.Namespace = shared(foo.Kind), shared(foo.APIVersion), shared(foo.Namespace)
	foo.Status.Conditions = slices.Clone(foo.Status.Conditions) // In an array of its own length: decoding makes room for more.
	for i := range foo.Status.Conditions {
		condition := &foo.Status.Conditions[i]
		condition.Type, condition.Reason, condition.Status = shared(condition.Type), shared(condition.Reason), shared(condition.Status)
	}
	return foo
}

// shared returns a string of which the objects that are read at about the same time hold but one copy.
func shared[S ~string](s S) S { return unique.Make(s).Value() }

// newestContainers are those of the Deployment that was read last.
var newestContainers atomic.Pointer[[]corev1.Container]

// sharedContainers returns the names and images of containers. Deployments in a row that have the same hold but one copy.
func sharedContainers(containers []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(containers))
	for i, container := range containers {
		kept[i] = corev1.Container{Name: shared(container.Name), Image: shared(container.Image)}
	}
	newest := newestContainers.Load()
	isSame := func(a, b corev1.Container) bool { return a.Name == b.Name && a.Image == b.Image }
	if newest != nil && slices.EqualFunc(*newest, kept, isSame) {
		return *newest
	}
	newestContainers.Store(&kept)
	return kept
}

func sharedLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	kept := make(map[string]string, len(labels))
	for key, value := range labels {
		kept[shared(key)] = shared(value)
	}
	return kept
}
