// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
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
	"k8s.io/apimachinery/pkg/labels"
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

// podsOf returns the Pods of a workload that are not being deleted, in the order in which they are kept: those of the newest template first, and
// those beyond the replicas of a StatefulSet last. It has none before a client asks for some.
func (c Client) podsOf(o *Object) (own []*Object, exist bool, err error) {
	c.server.lock.Lock()
	exist = c.server.hasPods
	c.server.lock.Unlock()
	if !exist {
		return nil, false, nil
	}
	for _, pod := range c.server.List(pods, o.GetNamespace()) {
		if pod.GetDeletionTimestamp() != nil {
			continue
		}
		if isOrphanOf(o, pod) {
			pod = pod.DeepCopy()
			pod.SetOwnerReferences(append(pod.GetOwnerReferences(), *metav1.NewControllerRef(o, o.GroupVersionKind())))
			if pod, err = c.Update(pod, ""); err != nil {
				return nil, true, err
			}
		}
		if metav1.IsControlledBy(pod, o) {
			own = append(own, pod)
		}
	}
	slices.SortStableFunc(own, func(a, b *Object) int { return slices.Compare(lastness(o, a), lastness(o, b)) })
	return own, true, nil
}

// lastness returns what decides whether a Pod is deleted before others of its workload.
func lastness(o, pod *Object) []int {
	isExcess, isOld := 0, 0
	if o.GetKind() == "StatefulSet" && int64(ordinal(pod)) >= number(o, "spec", "replicas") {
		isExcess = 1
	}
	if !isNewest(o, pod) {
		isOld = 1
	}
	return []int{isExcess, isOld, ordinal(pod)}
}

// isOrphanOf reports whether a Pod has no controller, and a workload selects it: a Deployment by the ReplicaSets that it would have.
func isOrphanOf(o, pod *Object) bool {
	content, ok := value(o, "spec", "selector").(map[string]any)
	if !ok || o.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(pod) != nil {
		return false
	}
	var labelSelector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &labelSelector) != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&labelSelector)
	switch o.GetKind() {
	case "StatefulSet":
		ok = pod.GetName() == podName(o, ordinal(pod))
	case "Deployment":
		ok = pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey] != ""
	}
	return err == nil && ok && selector.Matches(labels.Set(pod.GetLabels()))
}

// count counts the Pods of a workload.
func (p *podCounts) count(o *Object, own []*Object) {
	p.all, p.updated, p.ready = int64(len(own)), 0, 0
	for _, pod := range own {
		if isNewest(o, pod) {
			p.updated++
		}
		if isReady(pod) {
			p.ready++
		}
	}
}

// setPods deletes or creates Pods of a workload until there are as many as counted, and returns them. One that is being deleted gets no new ones.
func (c Client) setPods(o *Object, own []*Object, p podCounts, mayCreate bool) ([]*Object, error) {
	for len(own) > int(p.all) {
		last := own[len(own)-1]
		err := c.Delete(last, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(last.GetUID()))})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		own = own[:len(own)-1]
	}
	for len(own) < int(p.all) && mayCreate && o.GetDeletionTimestamp() == nil {
		created, err := c.Create(newPod(o, own))
		if apierrors.IsAlreadyExists(err) {
			break // One of its name is still being deleted.
		}
		if err != nil {
			return nil, err
		}
		own = append(own, created)
	}
	return own, nil
}

// startPods makes the Pods of a Job as many as are active.
func (c Client) startPods(job *Object, active int64) error {
	own, exist, err := c.podsOf(job)
	if exist && err == nil {
		_, err = c.setPods(job, own, podCounts{all: active}, true)
	}
	return err
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

// isNewest reports whether a Pod of a workload has the newest template.
func isNewest(o, pod *Object) bool {
	label, revision := revisionLabel(o)
	return label == "" || pod.GetLabels()[label] == revision
}

// podName returns the name of a Pod of a StatefulSet.
func podName(o *Object, ordinal int) string { return fmt.Sprintf("%s-%d", o.GetName(), ordinal) }

// newPod returns a new Pod of a workload that has others.
func newPod(o *Object, others []*Object) *Object {
	pod := newObject(corev1.SchemeGroupVersion.WithKind("Pod"))
	if metadata, ok := value(o, "spec", "template", "metadata").(map[string]any); ok {
		pod.Object["metadata"] = runtime.DeepCopyJSON(metadata)
	}
	pod.Object["spec"] = runtime.DeepCopyJSONValue(value(o, "spec", "template", "spec"))
	pod.SetNamespace(o.GetNamespace())
	pod.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(o, o.GroupVersionKind())})
	its := map[string]string{}
	maps.Copy(its, pod.GetLabels())
	label, revision := revisionLabel(o)
	if label != "" {
		its[label] = revision
	}
	pod.SetGenerateName(o.GetName() + "-")
	switch o.GetKind() {
	case "StatefulSet":
		n := 0
		for slices.ContainsFunc(others, func(other *Object) bool { return ordinal(other) == n }) {
			n++
		}
		name := podName(o, n)
		its[appsv1.StatefulSetPodNameLabel], its[appsv1.PodIndexLabel] = name, strconv.Itoa(n)
		pod.SetName(name)
		set(pod, name, "spec", "hostname")
		if service := text(o, "spec", "serviceName"); service != "" {
			set(pod, service, "spec", "subdomain")
		}
	case "Deployment":
		pod.SetGenerateName(o.GetName() + "-" + revision + "-")
	}
	pod.SetLabels(its)
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
	own, _, err := c.podsOf(job)
	if err != nil {
		return err
	}
	for _, o := range own {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod); err != nil {
			return err
		}
		complete(&pod.Status)
		if err := c.updateStatus(o.DeepCopy(), pod); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// complete lets all containers of a Pod end without an error.
func complete(status *corev1.PodStatus) {
	now := metav1.Now()
	status.Phase = corev1.PodSucceeded
	for n := range status.Conditions {
		if c := &status.Conditions[n]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, "PodCompleted", now
		}
	}
	for n := range status.ContainerStatuses {
		c := &status.ContainerStatuses[n]
		started := now
		if c.State.Running != nil {
			started = c.State.Running.StartedAt
		}
		c.Ready, c.Started = false, new(false)
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: started, FinishedAt: now}}
	}
}

// nodeName is the name of the node on which all Pods run, and hostIP its address.
const nodeName, hostIP = "node-1", "192.168.0.1"

// podIP returns an address for each Pod, of its UID.
func podIP(pod *Object) string {
	var n int
	_, _ = fmt.Sscanf(string(pod.GetUID()), uidFormat, &n)
	return fmt.Sprintf("10.244.%d.%d", n/250%250, n%250+1)
}

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
		pod.Status.PodIP, pod.Status.HostIP = podIP(o), hostIP
		pod.Status.PodIPs, pod.Status.HostIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}, []corev1.HostIP{{IP: hostIP}}
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
