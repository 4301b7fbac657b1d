// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// JudgeState returns how the state of a namespace differs from what its Foos desire, and the name of the first such Foo, or nothing.
func JudgeState(foos []samplev1alpha1.Foo, deployments []appsv1.Deployment) (name, differs string) {
	byName, controlled := map[string]*appsv1.Deployment{}, map[types.UID][]string{}
	for _, d := range deployments {
		byName[d.Name] = &d
		if ref := metav1.GetControllerOf(&d); ref != nil {
			controlled[ref.UID] = append(controlled[ref.UID], d.Name)
		}
	}
	for _, foo := range foos {
		if differs := judgeFoo(&foo, byName[foo.Spec.DeploymentName], controlled[foo.UID]); differs != "" {
			status, _ := json.Marshal(foo.Status) // It was decoded.
			return foo.Name, fmt.Sprintf("Foo %s %s; its status is %s", foo.Name, differs, status)
		}
		delete(controlled, foo.UID)
	}
	for _, names := range controlled {
		return "", fmt.Sprintf("the controller of Deployments %s does not exist", strings.Join(names, ", "))
	}
	return "", ""
}

// judgeFoo returns what of a Foo is not as desired, or nothing. d is the Deployment of the desired name, or nil, and controlled are the
// names of the Deployments that it controls.
func judgeFoo(foo *samplev1alpha1.Foo, d *appsv1.Deployment, controlled []string) string {
	ready, isTaken := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady), d != nil && !metav1.IsControlledBy(d, foo)
	switch {
	case foo.DeletionTimestamp != nil:
		return "still exists"
	case ready == nil || foo.Status.ObservedGeneration != foo.Generation || ready.ObservedGeneration != foo.Generation:
		return "has no status of its newest generation"
	case isTaken && ready.Reason != "ErrResourceExists":
		return "does not report that its name is taken"
	case isTaken && len(controlled) == 0 && foo.Status.AvailableReplicas > 0:
		return "reports available replicas, and controls no Deployment"
	case isTaken: // It waits.
	case d == nil:
		return "has no Deployment"
	case len(controlled) != 1:
		return "controls " + strings.Join(controlled, ", ")
	case foo.Spec.Replicas != nil && *d.Spec.Replicas != *foo.Spec.Replicas:
		return fmt.Sprintf("has %d replicas", *d.Spec.Replicas)
	case d.Spec.Template.Spec.Containers[0].Image != "nginx:latest":
		return "has the image " + d.Spec.Template.Spec.Containers[0].Image
	case d.Labels["controller"] != foo.Name:
		return "has a Deployment without labels"
	case ready.Status != metav1.ConditionTrue || foo.Status.AvailableReplicas != d.Status.AvailableReplicas:
		return "has a status that differs from that of its Deployment"
	}
	return ""
}
