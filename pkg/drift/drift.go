// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift finds out what has to be put back in a Deployment so that it is as wished, and leaves all else alone.
package drift

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Wish is what a Deployment should have.
type Wish struct {
	// Container is the name of the container that should run Image.
	Container string
	Image     string
	// Replicas may be nil, which leaves them to others.
	Replicas *int32
}

// Patch returns the strategic merge patch that gives current what is wished, and it and its Pods the labels. It returns nil if
// current has it all. Other fields are left as they are, including those of newer versions of Kubernetes, which this program's
// types do not know. (The labels are not part of the wish, which is kept, so that they need no memory if nothing is patched.)
//
// The patch carries the resourceVersion of current: if the Deployment has changed since, the API server answers with a
// conflict, and nothing is written.
func Patch(current *appsv1.Deployment, labels map[string]string, wish Wish) ([]byte, error) {
	if hasLabels(current.Labels, labels) && hasLabels(current.Spec.Template.Labels, labels) && wish.isFulfilled(current) {
		return nil, nil
	}
	repaired := current.DeepCopy()
	setLabels(&repaired.ObjectMeta, labels)
	setLabels(&repaired.Spec.Template.ObjectMeta, labels)
	if wish.Replicas != nil {
		repaired.Spec.Replicas = wish.Replicas
	}
	setImage(&repaired.Spec.Template.Spec, wish.Container, wish.Image)
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

// isFulfilled is the usual case, and is found out without a copy.
func (w Wish) isFulfilled(current *appsv1.Deployment) bool {
	runsImage := func(c corev1.Container) bool { return c.Name == w.Container && c.Image == w.Image }
	return slices.ContainsFunc(current.Spec.Template.Spec.Containers, runsImage) &&
		(w.Replicas == nil || current.Spec.Replicas != nil && *current.Spec.Replicas == *w.Replicas)
}

func hasLabels(current, wished map[string]string) bool {
	for key, value := range wished {
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

// setImage gives the Pod's container of that name the image, or adds one if there is none.
func setImage(pod *corev1.PodSpec, name, image string) {
	for i := range pod.Containers {
		if pod.Containers[i].Name == name {
			pod.Containers[i].Image = image
			return
		}
	}
	pod.Containers = append(pod.Containers, corev1.Container{Name: name, Image: image})
}
