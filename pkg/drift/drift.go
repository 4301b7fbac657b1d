// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift finds out what has to be put back in a Deployment so that it is as desired, and leaves all else alone.
package drift

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patch returns the strategic merge patch that gives current the desired labels (its own and its Pods'), containers' images
// and, unless they are nil, replicas. It returns nil if current has them all. Other fields are left as they are, including
// those of newer versions of Kubernetes, which this program's types do not know.
//
// The patch carries the resourceVersion of current: if the Deployment has changed since, the API server answers with a
// conflict, and nothing is written.
func Patch(current, desired *appsv1.Deployment) ([]byte, error) {
	if isAsDesired(current, desired) {
		return nil, nil
	}
	repaired := current.DeepCopy()
	setLabels(&repaired.ObjectMeta, desired.Labels)
	setLabels(&repaired.Spec.Template.ObjectMeta, desired.Spec.Template.Labels)
	if desired.Spec.Replicas != nil {
		repaired.Spec.Replicas = desired.Spec.Replicas
	}
	for _, container := range desired.Spec.Template.Spec.Containers {
		setImage(&repaired.Spec.Template.Spec, container)
	}
	unversioned := current.DeepCopy()
	unversioned.ResourceVersion = "" // What differs between the two is what the patch says.
	before, err := json.Marshal(unversioned)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(repaired)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, appsv1.Deployment{})
}

// isAsDesired is the usual case, and is found out without a copy.
func isAsDesired(current, desired *appsv1.Deployment) bool {
	for _, container := range desired.Spec.Template.Spec.Containers {
		isThere := func(c corev1.Container) bool { return c.Name == container.Name && c.Image == container.Image }
		if !slices.ContainsFunc(current.Spec.Template.Spec.Containers, isThere) {
			return false
		}
	}
	return hasLabels(current.Labels, desired.Labels) &&
		hasLabels(current.Spec.Template.Labels, desired.Spec.Template.Labels) &&
		(desired.Spec.Replicas == nil || current.Spec.Replicas != nil && *current.Spec.Replicas == *desired.Spec.Replicas)
}

func hasLabels(current, desired map[string]string) bool {
	for key, value := range desired {
		if got, ok := current[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func setLabels(object *metav1.ObjectMeta, labels map[string]string) {
	for key, value := range labels {
		metav1.SetMetaDataLabel(object, key, value)
	}
}

// setImage gives the Pod's container of the desired one's name its image, or adds the desired one if there is none.
func setImage(pod *corev1.PodSpec, desired corev1.Container) {
	for i := range pod.Containers {
		if pod.Containers[i].Name == desired.Name {
			pod.Containers[i].Image = desired.Image
			return
		}
	}
	pod.Containers = append(pod.Containers, desired)
}
