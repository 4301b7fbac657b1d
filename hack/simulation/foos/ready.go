// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation"
)

// judgeReady judges each Foo that reports of its newest generation that it is Ready.
func judgeReady(c simulation.Cluster) error {
	for _, foo := range c.List(foos) {
		if foo.GetDeletionTimestamp() != nil || number(foo, "status", "observedGeneration") != foo.GetGeneration() || readyOf(foo).Status != metav1.ConditionTrue {
			continue
		}
		name := deploymentNameOf(foo)
		switch deployment := c.Get(deployments, foo.GetNamespace(), name); {
		case deployment == nil || !metav1.IsControlledBy(deployment, foo):
			return fmt.Errorf("there is no Deployment %s, and Foo %s is Ready", name, foo.GetName())
		case !isAvailable(deployment):
			return fmt.Errorf("the Deployment %s is not available, and Foo %s is Ready", name, foo.GetName())
		}
	}
	return nil
}

// isAvailable reports whether a Deployment has the desired replicas, and no others, with its newest Pod template.
func isAvailable(deployment *object) bool {
	desired := number(deployment, "spec", "replicas")
	return deployment.GetDeletionTimestamp() == nil && number(deployment, "status", "observedGeneration") == deployment.GetGeneration() &&
		number(deployment, "status", "availableReplicas") == desired && number(deployment, "status", "updatedReplicas") == desired &&
		number(deployment, "status", "replicas") == desired
}
