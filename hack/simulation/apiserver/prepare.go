// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"hash/fnv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// prepare sets what the API server and its admission add to built-in objects. It is nobody's managed field. found is what the object
// replaces, or nil.
func (resource *Resource) prepare(o, found *Object) {
	isNew := found == nil
	switch resource.GroupResource() {
	case jobs:
		if isNew && value(o, "spec", "manualSelector") != true {
			prepareJob(o)
		}
	case pods:
		if isNew {
			preparePod(o)
		}
	case namespaces:
		if isNew {
			set(o, []any{string(corev1.FinalizerKubernetes)}, "spec", "finalizers")
		}
		set(o, o.GetName(), "metadata", "labels", corev1.LabelMetadataName)
	case services:
		if text(o, "spec", "type") != string(corev1.ServiceTypeExternalName) {
			prepareService(o, found)
		}
	case claims:
		if isNew {
			set(o, string(corev1.ClaimPending), "status", "phase")
		}
	}
}

// prepareJob sets the selector of a new Job, and the labels that it selects.
func prepareJob(o *Object) {
	uid := string(o.GetUID())
	labels := map[string]string{
		batchv1.ControllerUidLabel: uid, "controller-uid": uid, batchv1.JobNameLabel: o.GetName(), "job-name": o.GetName(),
	}
	ofJob := o.GetLabels()
	if ofJob == nil {
		ofJob = map[string]string{}
	}
	for label, v := range labels {
		ofJob[label] = v
		set(o, v, "spec", "template", "metadata", "labels", label)
	}
	o.SetLabels(ofJob)
	set(o, uid, "spec", "selector", "matchLabels", batchv1.ControllerUidLabel)
}

// preparePod sets what the API server and its admission plugins add to a new Pod, but for the volume of the service account's token.
func preparePod(o *Object) {
	set(o, string(corev1.PodPending), "status", "phase")
	if text(o, "spec", "serviceAccountName") == "" {
		set(o, "default", "spec", "serviceAccountName")
		set(o, "default", "spec", "serviceAccount")
	}
	set(o, int64(0), "spec", "priority")
	set(o, string(corev1.PreemptLowerPriority), "spec", "preemptionPolicy")
	tolerations, _ := value(o, "spec", "tolerations").([]any)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, map[string]any{
			"key": key, "operator": string(corev1.TolerationOpExists), "effect": string(corev1.TaintEffectNoExecute), "tolerationSeconds": int64(300),
		})
	}
	set(o, tolerations, "spec", "tolerations")
}

// prepareService allocates the cluster IP of a Service, which an update without one keeps, and drops a port for health checks that is not needed
// any more. Ports of nodes are not allocated.
func prepareService(o, found *Object) {
	const port = "healthCheckNodePort"
	if found != nil && !needsHealthCheck(o) && value(found, "spec", port) == value(o, "spec", port) {
		unstructured.RemoveNestedField(o.Object, "spec", port)
	}
	if text(o, "spec", "clusterIP") == "" && found != nil && text(found, "spec", "clusterIP") != "" {
		set(o, text(found, "spec", "clusterIP"), "spec", "clusterIP")
	}
	if text(o, "spec", "clusterIP") == "" {
		hash := fnv.New32()
		hash.Write([]byte(o.GetUID()))
		sum := hash.Sum32()
		set(o, fmt.Sprintf("10.%d.%d.%d", 96+sum>>16&15, sum>>8&255, sum&255), "spec", "clusterIP")
	}
	set(o, []any{text(o, "spec", "clusterIP")}, "spec", "clusterIPs")
	if value(o, "spec", "ipFamilies") == nil {
		set(o, []any{string(corev1.IPv4Protocol)}, "spec", "ipFamilies")
	}
	if text(o, "spec", "ipFamilyPolicy") == "" {
		set(o, string(corev1.IPFamilyPolicySingleStack), "spec", "ipFamilyPolicy")
	}
}
