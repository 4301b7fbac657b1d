// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation"
)

// judgePrune judges the deletion of a Deployment, as far as the controller could know the Foo and its Deployments when it sent the request.
func judgePrune(w simulation.Write) error {
	if w.Type != watch.Deleted && w.New.GetDeletionTimestamp() == nil || w.Request.Resource != deployments {
		return nil
	}
	ref := metav1.GetControllerOf(w.New)
	if ref == nil {
		return nil // It is judged by simulation.OwnObjects.
	}
	foo, isCertain := w.Known(foos, w.New.GetNamespace(), ref.Name)
	if foo == nil || foo.GetUID() != ref.UID || foo.GetDeletionTimestamp() != nil || !isCertain {
		return nil
	}
	name := deploymentNameOf(foo)
	current, isCertain := w.Known(deployments, foo.GetNamespace(), name)
	switch {
	case name == w.New.GetName():
		return fmt.Errorf("it is desired by Foo %s", foo.GetName())
	case !isCertain:
	case current == nil || !metav1.IsControlledBy(current, foo) || !canTakeOver(foo, current):
		return fmt.Errorf("its successor %s of Foo %s cannot take over yet", name, foo.GetName())
	}
	return nil
}

// canTakeOver reports whether all desired replicas are available, of which there are none only if the Foo does not say otherwise.
func canTakeOver(foo, deployment *object) bool {
	if number(deployment, "spec", "replicas") == 0 {
		return number(foo, "spec", "replicas") == 0 && deployment.GetDeletionTimestamp() == nil
	}
	return isAvailable(deployment)
}
