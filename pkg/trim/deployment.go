// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"maps"
	"slices"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/pkg/ownership"
)

// foreign is a Deployment that no Foo controls.
type foreign struct{ namespace, name, resourceVersion string }

// owned is a Deployment that a Foo controls.
type owned struct {
	foreign
	uid               types.UID
	generation        int64
	deletionTimestamp *metav1.Time
	apiVersion, foo   string // of the owner
	fooUID            types.UID

	labels     []label
	others     *otherLabels // or nil if they are the same
	replicas   *int32
	containers []corev1.Container

	observedGeneration                                  int64
	currentReplicas, updatedReplicas, availableReplicas int32
	conditions                                          []appsv1.DeploymentCondition
}

type label struct{ key, value string }

// otherLabels are those of a Deployment's Pods, and its selector.
type otherLabels struct {
	ofPods   []label
	selector *metav1.LabelSelector
}

// trimmed returns an owned or a foreign.
func trimmed(full *appsv1.Deployment) any {
	name := foreign{shared(full.Namespace), full.Name, full.ResourceVersion}
	owner := ownership.FooOf(full)
	if owner == nil {
		return &name
	}
	kept := &owned{
		foreign: name, uid: full.UID, generation: full.Generation, deletionTimestamp: full.DeletionTimestamp,
		apiVersion: shared(owner.APIVersion), foo: sameAs(full.Name, owner.Name), fooUID: owner.UID,
		replicas: full.Spec.Replicas, containers: sharedContainers(full.Spec.Template.Spec.Containers),
		observedGeneration: full.Status.ObservedGeneration, currentReplicas: full.Status.Replicas,
		updatedReplicas: full.Status.UpdatedReplicas, availableReplicas: full.Status.AvailableReplicas,
		conditions: slices.Clone(full.Status.Conditions),
	}
	for i := range kept.conditions {
		condition := &kept.conditions[i]
		condition.Type = shared(condition.Type)
		condition.Status, condition.Reason, condition.Message = shared(condition.Status), shared(condition.Reason), shared(condition.Message)
	}
	kept.labels = kept.listOf(full.Labels)
	podLabels, selector := full.Spec.Template.Labels, full.Spec.Selector
	if selector == nil || len(selector.MatchExpressions) > 0 || !maps.Equal(selector.MatchLabels, full.Labels) || !maps.Equal(podLabels, full.Labels) {
		kept.others = &otherLabels{ofPods: kept.listOf(podLabels), selector: selector}
	}
	return kept
}

// listOf returns labels in less memory than a map.
func (o *owned) listOf(labels map[string]string) []label {
	list := make([]label, 0, len(labels))
	for key, value := range labels {
		if value == o.foo {
			value = o.foo
		} else {
			value = shared(value)
		}
		list = append(list, label{shared(key), value})
	}
	return list
}

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

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which informers and indexes know a Deployment.
func (f *foreign) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: f.namespace, Name: f.name, ResourceVersion: f.resourceVersion}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor. Labels are not needed for that.
func (o *owned) GetObjectMeta() metav1.Object {
	var object struct { // One piece of memory instead of two.
		metav1.ObjectMeta
		owner [1]metav1.OwnerReference
	}
	o.putMetadata(&object.ObjectMeta, &object.owner)
	return &object.ObjectMeta
}

func (o *owned) putMetadata(into *metav1.ObjectMeta, owner *[1]metav1.OwnerReference) {
	owner[0] = metav1.OwnerReference{
		APIVersion: o.apiVersion, Kind: ownership.FooKind.Kind, Name: o.foo, UID: o.fooUID, Controller: &isController,
	}
	*into = metav1.ObjectMeta{
		Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: o.resourceVersion, Generation: o.generation,
		DeletionTimestamp: o.deletionTimestamp, OwnerReferences: owner[:],
	}
}

// isController is what the owner references of all Deployments point at.
var isController = true

func (f *foreign) whole() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name, ResourceVersion: f.resourceVersion}}
}

// whole returns what was kept as the Deployment that it was.
func (o *owned) whole() *appsv1.Deployment {
	var object struct { // One piece of memory instead of three.
		appsv1.Deployment
		owner    [1]metav1.OwnerReference
		selector metav1.LabelSelector
	}
	o.putMetadata(&object.ObjectMeta, &object.owner)
	object.Labels = mapOf(o.labels)
	if o.others == nil {
		object.Spec.Template.Labels = object.Labels
		object.selector.MatchLabels = object.Labels
		object.Spec.Selector = &object.selector
	} else {
		object.Spec.Template.Labels = mapOf(o.others.ofPods)
		object.Spec.Selector = o.others.selector
	}
	object.Spec.Replicas, object.Spec.Template.Spec.Containers = o.replicas, o.containers
	object.Status = appsv1.DeploymentStatus{
		ObservedGeneration: o.observedGeneration, Replicas: o.currentReplicas, UpdatedReplicas: o.updatedReplicas,
		AvailableReplicas: o.availableReplicas, Conditions: o.conditions,
	}
	return &object.Deployment
}

func mapOf(labels []label) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	all := make(map[string]string, len(labels))
	for _, label := range labels {
		all[label.key] = label.value
	}
	return all
}
