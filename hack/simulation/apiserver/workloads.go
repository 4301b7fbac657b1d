// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// podRetry is how long a workload whose Pods are rejected takes until the next try.
const podRetry = time.Second

// rollOut is a step of a rollout: it observes the generation, and there is one Pod more or less. A Deployment that is paused is only scaled, with
// the Pod template that it has rolled out.
func rollOut(c Client, o *Object) (again time.Duration, err error) {
	template := hash(value(o, "spec", "template"))
	isNew := c.template(o.GetUID()) != template && o.GetKind() != "ReplicaSet" // A ReplicaSet replaces no Pods.
	isPaused := isPaused(o)
	p := countPods(o)
	if isNew {
		p.updated = 0
	}
	own, exist, err := c.podsOf(o)
	if err != nil {
		return 0, err
	}
	if exist {
		p.count(o, own)
	}
	rejected := c.podRejection(o)
	switch {
	case rejected != nil:
		again = podRetry
	case isPaused && p.updated < p.all:
		p.scale()
	case isPaused && isNew: // There is no Pod, and none with the newest template before it is resumed.
	default:
		p.rollOut()
	}
	if exist {
		if own, err = c.setPods(o, own, p, rejected == nil); err != nil {
			return 0, err
		}
		p.count(o, own)
	} else {
		p.ready = p.all
	}
	status := workloadStatus(o, p)
	status["observedGeneration"] = o.GetGeneration()
	status["conditions"] = workloadConditions(o, p, rejected)
	if len(status["conditions"].([]any)) == 0 {
		delete(status, "conditions")
	}
	maps.DeleteFunc(status, func(_ string, v any) bool { return v == int64(0) }) // They are not stored.
	revision, _ := strconv.Atoi(o.GetAnnotations()[revisionAnnotation])
	switch {
	case o.GetKind() == "Deployment" && !isPaused && (isNew || revision == 0):
		set(o, strconv.Itoa(revision+1), "metadata", "annotations", revisionAnnotation)
	case equality.Semantic.DeepEqual(o.Object["status"], status):
		return again, nil
	}
	o.Object["status"] = status
	if _, err = c.Update(o, "status"); err == nil && !isPaused {
		c.setTemplate(o.GetUID(), template)
	}
	return again, err
}

// template returns the Pod template, as a hash, of the newest rollout of a workload, or 0.
func (c Client) template(workload types.UID) uint32 {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	return c.server.templates[workload]
}

func (c Client) setTemplate(workload types.UID, template uint32) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.server.templates[workload] = template
}

func isPaused(o *Object) bool {
	isPaused, _ := value(o, "spec", "paused").(bool)
	return isPaused
}

// podCounts are how many Pods a workload should have, has, has with the newest template, and has that are ready, and how many more there may be
// meanwhile.
type podCounts struct {
	desired, all, updated, ready, surge int64
	onDelete                            bool // Whoever deletes Pods has them replaced: the workload does not.
}

// countPods returns the counts of Pods that are only in the status: all are ready.
func countPods(o *Object) podCounts {
	p := podCounts{
		desired: number(o, "spec", "replicas"), all: number(o, "status", "replicas"), updated: number(o, "status", "updatedReplicas"),
		onDelete: text(o, "spec", "updateStrategy", "type") == "OnDelete",
	}
	switch o.GetKind() {
	case "Deployment":
		p.surge = 1
	case "ReplicaSet":
		p.updated = p.all
	case "DaemonSet": // There is one node.
		p.desired, p.all, p.updated = 1, number(o, "status", "currentNumberScheduled"), number(o, "status", "updatedNumberScheduled")
	}
	p.ready = p.all
	return p
}

// rollOut replaces Pods with an older template, one after the other once all are ready, and scales.
func (p *podCounts) rollOut() {
	switch {
	case p.updated < p.desired && p.all < p.desired+p.surge:
		p.all, p.updated = p.all+1, p.updated+1
	case p.all > p.desired && (p.onDelete || p.updated == p.all):
		p.all, p.updated = p.all-1, min(p.updated, p.all-1)
	case p.updated < p.all && p.ready == p.all && !p.onDelete:
		p.all--
	}
}

// scale scales Pods with an older template.
func (p *podCounts) scale() {
	switch {
	case p.all < p.desired:
		p.all++
	case p.all > p.desired:
		p.all--
	}
}

func (p *podCounts) isComplete() bool { return p.all == p.desired && p.updated == p.desired }

// revisionAnnotation is what the Deployment controller adds to each Deployment: how many rollouts there were.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// podRejection returns what a rule responds to the creation of a Pod of a workload with, or nil. The name of the Pod is that of the workload.
func (c Client) podRejection(o *Object) error {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	return c.server.rejection(&Request{
		Client: c.name, Manager: c.name, Verb: "create", Resource: pods, Namespace: o.GetNamespace(), Name: o.GetName(), Sent: time.Now(),
	})
}

// workloadStatus is the status of a workload with some Pods.
func workloadStatus(o *Object, p podCounts) map[string]any {
	status := map[string]any{"replicas": p.all, "readyReplicas": p.ready, "availableReplicas": p.ready}
	switch o.GetKind() {
	case "Deployment":
		status["updatedReplicas"] = p.updated
	case "ReplicaSet":
		status["fullyLabeledReplicas"] = p.all
	case "StatefulSet":
		_, update := revisionLabel(o) // This is the name of a ControllerRevision.
		current, isKnown := value(o, "status", "currentRevision").(string)
		status["updatedReplicas"], status["updateRevision"] = p.updated, update
		status["currentReplicas"], status["currentRevision"] = p.all-p.updated, current
		if !isKnown || current == update || p.isComplete() {
			status["currentReplicas"], status["currentRevision"] = p.all, update
		}
	case "DaemonSet":
		status = map[string]any{
			"desiredNumberScheduled": p.desired, "currentNumberScheduled": p.all, "updatedNumberScheduled": p.updated,
			"numberReady": p.ready, "numberAvailable": p.ready,
		}
	}
	return status
}

func hash(v any) uint32 {
	h := fnv.New32a()
	h.Write(encode(v))
	return h.Sum32()
}

// workloadConditions returns the conditions of a workload, as far as its kind has any.
func workloadConditions(o *Object, p podCounts, rejected error) []any {
	conditions := []any{}
	add := func(kind, status, reason, message string) {
		now := time.Now().UTC().Format(time.RFC3339)
		condition := map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
		if o.GetKind() == "Deployment" {
			condition["lastUpdateTime"] = now
		}
		conditions = append(conditions, keepTimes(o, condition))
	}
	if o.GetKind() == "Deployment" {
		if p.ready >= p.desired {
			add("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
		} else {
			add("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
		}
		switch {
		case p.isComplete():
			add("Progressing", "True", "NewReplicaSetAvailable", "The new ReplicaSet has successfully progressed.")
		case isPaused(o):
			add("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
		case rejected != nil && isOverdue(o):
			add("Progressing", "False", "ProgressDeadlineExceeded", "The new ReplicaSet has timed out progressing.")
		default:
			add("Progressing", "True", "ReplicaSetUpdated", "The new ReplicaSet is progressing.")
		}
	}
	if rejected != nil && (o.GetKind() == "Deployment" || o.GetKind() == "ReplicaSet") {
		add(string(appsv1.DeploymentReplicaFailure), "True", "FailedCreate", rejected.Error())
	}
	return conditions
}

// isOverdue reports whether the rollout of a Deployment has begun longer ago than it may take.
func isOverdue(o *Object) bool {
	for _, condition := range conditionsOf(o) {
		switch condition["reason"] {
		case "ProgressDeadlineExceeded":
			return true
		case "ReplicaSetUpdated":
			began, _ := time.Parse(time.RFC3339, fmt.Sprint(condition["lastUpdateTime"])) // rollOut has written it.
			return time.Since(began) >= time.Duration(number(o, "spec", "progressDeadlineSeconds"))*time.Second
		}
	}
	return false
}

func conditionsOf(o *Object) (conditions []map[string]any) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		conditions = append(conditions, condition)
	}
	return conditions
}

// keepTimes returns a condition with the times of that in the status, if it says the same.
func keepTimes(o *Object, condition map[string]any) map[string]any {
	for _, old := range conditionsOf(o) {
		if old["type"] == condition["type"] && old["status"] == condition["status"] {
			condition["lastTransitionTime"] = old["lastTransitionTime"]
			if old["reason"] == condition["reason"] && old["message"] == condition["message"] {
				return old
			}
		}
	}
	return condition
}

// jobDuration is how long a Job takes.
const jobDuration = time.Second

// runJob starts a Job, and completes it after jobDuration, unless it is suspended meanwhile.
func runJob(c Client, o *Object) (again time.Duration, err error) {
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, job); err != nil {
		return 0, err
	}
	now, status := metav1.Now(), &job.Status
	switch isSuspended := job.Spec.Suspend != nil && *job.Spec.Suspend; {
	case job.DeletionTimestamp != nil || status.CompletionTime != nil:
		return 0, nil
	case isSuspended:
		status.StartTime, status.Active, status.Ready = nil, 0, new(int32)
		if !setSuspended(job, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			return 0, nil
		}
	case c.podRejection(o) != nil:
		return podRetry, nil
	case status.StartTime == nil:
		status.StartTime, status.Active = &now, *job.Spec.Parallelism
		status.Ready = new(status.Active)
		if len(status.Conditions) > 0 {
			setSuspended(job, corev1.ConditionFalse, "JobResumed", "Job resumed")
		}
		again = jobDuration
	case now.Sub(status.StartTime.Time) < jobDuration:
		return 0, nil
	default:
		status.Active, status.Ready, status.Succeeded = 0, new(int32), *job.Spec.Parallelism
		if job.Spec.Completions != nil {
			status.Succeeded = *job.Spec.Completions
		}
		status.CompletionTime = &now
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			status.Conditions = append(status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached,
				Message: "Reached expected number of succeeded pods", LastProbeTime: now, LastTransitionTime: now,
			})
		}
	}
	if status.CompletionTime != nil {
		err = c.completePods(o)
	} else {
		err = c.startPods(o, int64(status.Active))
	}
	if err != nil {
		return 0, err
	}
	return again, c.updateStatus(o, job)
}

// setSuspended sets the condition that says whether a Job is suspended, and reports whether that has changed.
func setSuspended(job *batchv1.Job, is corev1.ConditionStatus, reason, message string) bool {
	isSuspended := func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }
	conditions := job.Status.Conditions
	if n := slices.IndexFunc(conditions, isSuspended); n >= 0 && conditions[n].Status == is {
		return false
	}
	now := metav1.Now()
	job.Status.Conditions = append(slices.DeleteFunc(conditions, isSuspended), batchv1.JobCondition{
		Type: batchv1.JobSuspended, Status: is, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now,
	})
	return true
}

// updateStatus writes the status of an object as its Go type has it.
func (c Client) updateStatus(o *Object, typed any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	o.Object["status"] = content["status"]
	_, err = c.Update(o, "status")
	return err
}
