// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foos is what is special of Foos in random walks: what only their controller promises, and what of them depends on the past.
package foos

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/sample-controller/hack/simulation/walks"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

type object = unstructured.Unstructured

var (
	foos        = samplev1alpha1.Resource("foos")
	deployments = appsv1.Resource("deployments")
)

// Promises are what only the controller of Foos promises.
var Promises = []walks.Own{
	{Name: "a superseded Deployment serves until its successor can take over", Write: judgePrune},
	{Name: "a Foo is Ready if its Deployment is available", Moment: judgeReady, Within: 2 * time.Minute, End: judgeReady},
	{Name: "a rename keeps the number of replicas", Write: judgeRename},
}

// DependsOnPath drops what of an object depends by design on what has happened before: names and replicas. The first Foo gets a name,
// and one without replicas keeps those that its Deployment has.
func DependsOnPath(o *object, owners []*object) bool {
	if o.GetKind() == "Foo" {
		if !managesReplicas(o) {
			delete(o.Object, "status")
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, _ := condition.(map[string]any); c["reason"] == "ErrResourceExists" {
				return true // While it waits for a name, it may go on to serve under another one.
			}
		}
		return false
	}
	for _, owner := range owners {
		if !managesReplicas(owner) {
			unstructured.RemoveNestedField(o.Object, "spec", "replicas")
		}
		if deploymentNameOf(owner) != o.GetName() {
			return true // It serves while the name of the other one is taken.
		}
	}
	return false
}

func deploymentNameOf(foo *object) string {
	name, _, _ := unstructured.NestedString(foo.Object, "spec", "deploymentName")
	return name
}

func managesReplicas(foo *object) bool {
	_, ok, _ := unstructured.NestedInt64(foo.Object, "spec", "replicas")
	return ok
}

// number returns an integer of an object, or 0.
func number(o *object, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}
