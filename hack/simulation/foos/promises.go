// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foos is what is special of Foos in random walks: what only their controller promises, and what of them depends on the past.
package foos

import (
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/sample-controller/hack/simulation"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

type object = unstructured.Unstructured

var (
	fooKind     = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")
	foos        = samplev1alpha1.Resource("foos")
	deployments = appsv1.Resource("deployments")
)

// The promises that only the controller of Foos makes.
const (
	// takesOver: a superseded Deployment is not deleted before.
	takesOver simulation.Promise = "a superseded Deployment serves until its successor can take over"
	// isDesired: the Deployment is as the Foo desires it, and the status says so.
	isDesired simulation.Promise = "in the end, all is as the Foos desire it"
)

// Promises are those that are judged in random walks.
var Promises = []simulation.Own{
	{Name: takesOver, Write: judgePrune},
	{Name: isDesired, End: judgeEnd},
	{Name: "a Foo is Ready if its Deployment is available", Moment: judgeReady, Within: 2 * time.Minute},
	{Name: "a rename keeps the number of replicas", Write: judgeRename},
	{Name: reports, Write: judgeReason},
}

// DependsOnPath drops what of an object depends by design on what has happened before: names and replicas. The first Foo gets a name,
// and one without replicas keeps those that its Deployment has.
func DependsOnPath(o *object, owners []*object) bool {
	if o.GetKind() == "Foo" {
		if !managesReplicas(o) {
			delete(o.Object, "status")
		}
		return readyOf(o).Reason == "ErrResourceExists" // While it waits for a name, it may go on to serve under another one.
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

// judgeEnd judges the end of a walk.
func judgeEnd(c simulation.Cluster) error {
	if _, differs := JudgeState(all[samplev1alpha1.Foo](c.List(foos)), all[appsv1.Deployment](c.List(deployments))); differs != "" {
		return errors.New(differs)
	}
	return nil
}

// all returns objects as the Go type T.
func all[T any](objects []*object) []T {
	list := make([]T, len(objects))
	for i, o := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &list[i]); err != nil {
			panic(err) // The API server has validated it.
		}
	}
	return list
}

// number returns an integer of an object, or 0 if it is not there.
func number(o *object, path ...string) int64 {
	if o == nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}
