// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation"
)

// judgeRename judges the Deployment of a new name that the controller creates for a Foo which leaves the number of replicas to others.
func judgeRename(w simulation.Write) error {
	if w.Old != nil || w.Request.Resource != deployments {
		return nil
	}
	ref := metav1.GetControllerOf(w.New)
	if ref == nil {
		return nil // It is judged by simulation.SameEnd.
	}
	foo, isCertain := w.Known(foos, w.New.GetNamespace(), ref.Name)
	if foo == nil || !isCertain || managesReplicas(foo) {
		return nil
	}
	var replicas []int64
	for _, other := range w.ControlledBy(foo) {
		if other.GetName() == w.New.GetName() {
			continue
		}
		known, isCertain := w.Known(deployments, other.GetNamespace(), other.GetName())
		if known == nil || !isCertain || known.GetResourceVersion() != other.GetResourceVersion() || known.GetDeletionTimestamp() != nil {
			return nil // The controller may know another state.
		}
		replicas = append(replicas, number(other, "spec", "replicas"))
	}
	if got := number(w.New, "spec", "replicas"); len(replicas) == 1 && replicas[0] != got {
		return fmt.Errorf("it has %d replicas, and the Deployment that it supersedes %d", got, replicas[0])
	}
	return nil
}
