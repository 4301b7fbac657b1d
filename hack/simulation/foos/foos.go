// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package foos is what is special of Foos in random walks: what only their controller promises, and what of them depends on the past.
package foos

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/walks"
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
	takesOver walks.Promise = "a superseded Deployment serves until its successor can take over"
	// isDesired: the Deployment is as the Foo desires it, and the status says so.
	isDesired walks.Promise = "in the end, all is as the Foos desire it"
)

// Promises are those that are judged in random walks.
var Promises = []walks.Own{{Name: takesOver, Write: judgePrune}, {Name: isDesired, End: judgeEnd}}

// judgePrune judges the deletion of a Deployment, as far as the controller could know the Foo and its Deployments when it sent the request.
func judgePrune(w walks.Write) error {
	if w.Type != watch.Deleted && w.New.GetDeletionTimestamp() == nil || w.Request.Resource != deployments {
		return nil
	}
	ref := metav1.GetControllerOf(w.New)
	if ref == nil {
		return nil // It is judged by walks.OwnObjects.
	}
	foo, since := w.Known(foos, w.New.GetNamespace(), ref.Name)
	if foo == nil || foo.GetUID() != ref.UID || foo.GetDeletionTimestamp() != nil || !since.Before(w.Request.Sent) {
		return nil
	}
	name := deploymentNameOf(foo)
	current, since := w.Known(deployments, foo.GetNamespace(), name)
	switch {
	case name == w.New.GetName():
		return fmt.Errorf("it is desired by Foo %s", foo.GetName())
	case !since.Before(w.Request.Sent):
	case current == nil || !metav1.IsControlledBy(current, foo) || !canTakeOver(foo, current):
		return fmt.Errorf("its successor %s of Foo %s cannot take over yet", name, foo.GetName())
	}
	return nil
}

// canTakeOver reports whether all desired replicas are available, of which there are none only if the Foo does not say otherwise.
func canTakeOver(foo, deployment *object) bool {
	desired := number(deployment, "spec", "replicas")
	switch {
	case deployment.GetDeletionTimestamp() != nil:
		return false
	case desired == 0:
		return number(foo, "spec", "replicas") == 0
	}
	isObserved := number(deployment, "status", "observedGeneration") == deployment.GetGeneration()
	return isObserved && number(deployment, "status", "availableReplicas") >= desired
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

// judgeEnd judges the end of a walk.
func judgeEnd(c walks.Cluster) error {
	_, differs := JudgeState(all[samplev1alpha1.Foo](c.List(foos)), all[appsv1.Deployment](c.List(deployments)))
	if differs != "" {
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
