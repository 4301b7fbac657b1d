// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

var (
	// temporary are the reasons for which nobody has to act. With any other one, a Foo is Stalled.
	temporary = []string{"DeploymentAvailable", "DeploymentProgressing", "DeploymentFailed"}
	// ofDeployment are the reasons that follow from the Deployment alone, not from what has become of requests.
	ofDeployment = []string{"DeploymentAvailable", "DeploymentProgressing", "DeploymentStalled", "DeploymentPaused"}
)

// judgeReason judges a status that the controller writes, as far as it had seen the Deployment of the desired name: caches do not know what was
// just deleted.
func judgeReason(w simulation.Write) error {
	if w.Request.Resource != foos || number(w.New, "status", "observedGeneration") != w.New.GetGeneration() {
		return nil
	}
	foo, ready := all[samplev1alpha1.Foo]([]*object{w.New})[0], readyOf(w.New)
	stalled := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionStalled)
	isTemporary := slices.Contains(temporary, ready.Reason)
	if isTemporary != (stalled == nil) ||
		!isTemporary && (stalled.Status != metav1.ConditionTrue || stalled.Reason != ready.Reason || stalled.Message != ready.Message) {
		return fmt.Errorf("it is Stalled with %v, and Ready with %v", stalled, ready)
	}
	seen, isCertain := w.Seen(deployments, foo.Namespace, foo.Spec.DeploymentName)
	last, saysGone := readyOf(w.Old), strings.HasSuffix(ready.Message, ": desired, found nothing")
	repeats := last.Reason == ready.Reason && last.ObservedGeneration == ready.ObservedGeneration // Its text stays, although what is undone differs.
	if ready.Reason == "DeploymentOverridden" && (repeats && ready.Message != last.Message || !repeats && isCertain && saysGone != (seen == nil)) {
		return fmt.Errorf("it says %s, and said %s before; a Deployment was found: %t", ready.Message, last.Message, seen != nil)
	}
	live := w.Read(deployments, foo.Namespace, foo.Spec.DeploymentName)
	if live != nil && ready.Reason == "ErrResourceExists" && metav1.IsControlledBy(live, &foo) {
		return fmt.Errorf("it reports %s; the Deployment is its own", ready.Message)
	}
	if !isCertain || !slices.Contains(ofDeployment, ready.Reason) {
		return nil
	}
	reason, progress := "DeploymentProgressing", ""
	if seen != nil {
		reason, progress = reasonOf(&foo, seen)
	}
	if ready.Reason != reason || !strings.HasPrefix(ready.Message, progress) {
		return fmt.Errorf("it reports %s: %s; the Deployment gives %s: %s", ready.Reason, ready.Message, reason, progress)
	}
	return nil
}

// readyOf returns the Ready condition of a Foo, which is empty if it has none.
func readyOf(foo *object) *metav1.Condition {
	status, _ := foo.Object["status"].(map[string]any)
	conditions := all[samplev1alpha1.FooStatus]([]*object{{Object: status}})[0].Conditions
	return cmp.Or(meta.FindStatusCondition(conditions, samplev1alpha1.ConditionReady), &metav1.Condition{})
}

// reasonOf returns the reason that a Deployment gives, and how far it is.
func reasonOf(foo *samplev1alpha1.Foo, o *object) (reason, progress string) {
	d := all[appsv1.Deployment]([]*object{o})[0]
	isObserved := d.Status.ObservedGeneration >= d.Generation
	progress = fmt.Sprintf("%d of %d replicas available", d.Status.AvailableReplicas, *d.Spec.Replicas)
	if surplus := d.Status.Replicas - *d.Spec.Replicas; isObserved && surplus > 0 && d.Status.UpdatedReplicas >= *d.Spec.Replicas {
		progress += fmt.Sprintf("; %d more to be terminated", surplus)
	}
	fails := func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue ||
			c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
	}
	switch {
	case !metav1.IsControlledBy(o, foo):
		return "ErrResourceExists", ""
	case d.DeletionTimestamp != nil:
		return "DeploymentProgressing", ""
	case isAvailable(o):
		return "DeploymentAvailable", progress
	case slices.ContainsFunc(d.Status.Conditions, fails):
		return "DeploymentStalled", progress
	case isObserved && d.Spec.Paused && d.Status.UpdatedReplicas < max(1, d.Status.Replicas):
		return "DeploymentPaused", progress
	}
	return "DeploymentProgressing", progress
}
