// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// createPods lets workloads have Pods from now on. Until a client asks for Pods over a connection, there are only those that the status counts:
// most programs never ask, and Pods take time.
func (b *builtInControllers) createPods() {
	b.server.lock.Lock()
	did := b.server.hasPods
	b.server.hasPods = true
	b.server.lock.Unlock()
	if did {
		return
	}
	for resource, name := range b.running {
		for _, o := range b.server.List(resource, "") {
			b.schedule(name, o, reconcileDelay)
		}
	}
}

// scheduleOwner reconciles the workload that controls a Pod, if any.
func (b *builtInControllers) scheduleOwner(pod *Object) {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return
	}
	version, _ := schema.ParseGroupVersion(ref.APIVersion)
	name, runs := b.running[schema.GroupResource{Group: version.Group, Resource: strings.ToLower(ref.Kind) + "s"}]
	if runs {
		owner := &Object{}
		owner.SetNamespace(pod.GetNamespace())
		owner.SetName(ref.Name)
		owner.SetUID(ref.UID)
		b.schedule(name, owner, reconcileDelay)
	}
}

// setPods makes the Pods of a workload as many as there should be, in all and of the newest template, and returns how many are ready. One that is
// being deleted gets no new ones.
func (c Client) setPods(o *Object, p podCounts, mayCreate bool) (ready int64, err error) {
	own, exist := c.podsOf(o)
	if !exist {
		return p.all, nil
	}
	label, revision := revisionLabel(o)
	var kept, old []*Object
	for _, pod := range own {
		if label == "" || pod.GetLabels()[label] == revision {
			kept = append(kept, pod)
		} else {
			old = append(old, pod)
		}
	}
	kept = append(kept, old[:min(len(old), int(p.all-p.updated))]...)
	kept = kept[:min(len(kept), int(p.all))]
	for _, pod := range own {
		if !slices.Contains(kept, pod) {
			err := c.Delete(pod, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.GetUID()))})
			if err != nil && !apierrors.IsNotFound(err) {
				return 0, err
			}
		} else if isReady(pod) {
			ready++
		}
	}
	for len(kept) < int(p.all) && mayCreate && o.GetDeletionTimestamp() == nil {
		pod := newPod(o, kept)
		if _, err := c.Create(pod); err != nil && !apierrors.IsAlreadyExists(err) { // One of its name is still being deleted.
			return 0, err
		}
		kept = append(kept, pod)
	}
	return ready, nil
}

// podsOf returns the Pods of a workload that are not being deleted, in the order of their ordinals or names, and whether workloads have Pods.
func (c Client) podsOf(o *Object) (own []*Object, exist bool) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	if !c.server.hasPods {
		return nil, false
	}
	for _, pod := range sorted(c.server.objects[pods], o.GetNamespace()) {
		if metav1.IsControlledBy(pod, o) && pod.GetDeletionTimestamp() == nil {
			own = append(own, pod)
		}
	}
	slices.SortStableFunc(own, func(a, b *Object) int { return cmp.Compare(ordinal(a), ordinal(b)) })
	return own, true
}

// revisionLabel returns the label of the Pods of a workload that says of which template they are, and its newest value. Those of a Job, and of a
// ReplicaSet, have none: their workload does not replace them.
func revisionLabel(o *Object) (label, revision string) {
	revision = fmt.Sprintf("%x", hash(value(o, "spec", "template")))
	switch o.GetKind() {
	case "Deployment":
		return appsv1.DefaultDeploymentUniqueLabelKey, revision
	case "DaemonSet":
		return appsv1.ControllerRevisionHashLabelKey, revision
	case "StatefulSet":
		return appsv1.ControllerRevisionHashLabelKey, o.GetName() + "-" + revision // This is the name of a ControllerRevision.
	}
	return "", ""
}

// newPod returns a new Pod of a workload that has others.
func newPod(o *Object, others []*Object) *Object {
	pod := newObject(corev1.SchemeGroupVersion.WithKind("Pod"))
	if metadata, ok := value(o, "spec", "template", "metadata").(map[string]any); ok {
		pod.Object["metadata"] = runtime.DeepCopyJSON(metadata)
	}
	pod.Object["spec"] = runtime.DeepCopyJSONValue(value(o, "spec", "template", "spec"))
	pod.SetNamespace(o.GetNamespace())
	pod.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(o, o.GroupVersionKind())})
	labels := map[string]string{}
	maps.Copy(labels, pod.GetLabels())
	label, revision := revisionLabel(o)
	if label != "" {
		labels[label] = revision
	}
	pod.SetGenerateName(o.GetName() + "-")
	switch o.GetKind() {
	case "StatefulSet":
		n := 0
		for slices.ContainsFunc(others, func(other *Object) bool { return ordinal(other) == n }) {
			n++
		}
		name := fmt.Sprintf("%s-%d", o.GetName(), n)
		labels[appsv1.StatefulSetPodNameLabel], labels[appsv1.PodIndexLabel] = name, strconv.Itoa(n)
		pod.SetName(name)
		set(pod, name, "spec", "hostname")
		if service := text(o, "spec", "serviceName"); service != "" {
			set(pod, service, "spec", "subdomain")
		}
	case "Deployment":
		pod.SetGenerateName(o.GetName() + "-" + revision + "-")
	}
	pod.SetLabels(labels)
	return pod
}

// ordinal returns the number at the end of the name of an object, or -1.
func ordinal(o *Object) int {
	n, err := strconv.Atoi(o.GetName()[strings.LastIndex(o.GetName(), "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

func isReady(pod *Object) bool {
	return slices.ContainsFunc(conditionsOf(pod), func(c map[string]any) bool { return c["type"] == "Ready" && c["status"] == "True" })
}

// completePods lets the Pods of a Job succeed.
func (c Client) completePods(job *Object) error {
	own, _ := c.podsOf(job)
	for _, pod := range own {
		done := pod.DeepCopy()
		set(done, string(corev1.PodSucceeded), "status", "phase")
		if _, err := c.Update(done, "status"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// nodeName is the name of the node on which all Pods run.
const nodeName = "node-1"

// podEnd is how long a Pod takes that ends gracefully.
const podEnd = time.Second

// runPod schedules a Pod, makes it ready, and deletes one that has ended gracefully.
func runPod(c Client, o *Object) (again time.Duration, err error) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod); err != nil {
		return 0, err
	}
	switch now := metav1.Now(); {
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
		end := pod.DeletionTimestamp.Add(podEnd - time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
		if wait := end.Sub(now.Time); wait > 0 {
			return wait, nil
		}
		return 0, c.Delete(o, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0:
	case pod.Spec.NodeName == "":
		set(o, nodeName, "spec", "nodeName")
		_, err = c.Update(o, "")
		return 0, err
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
			})
		}
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Image: container.Image, Ready: true, Started: new(true),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
		return 0, c.updateStatus(o, pod)
	}
	return 0, nil
}
