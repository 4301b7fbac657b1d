// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// namespaceRetry is how long the namespace controller waits for objects with finalizers.
const namespaceRetry = 5 * time.Second

// emptyNamespace deletes what is in a namespace that is terminating, and then the namespace.
func emptyNamespace(c Client, namespace *Object) (again time.Duration, err error) {
	if namespace.GetDeletionTimestamp() == nil {
		return 0, nil
	}
	isEmpty := true
	for _, o := range c.server.All() {
		if o.GetNamespace() != namespace.GetName() {
			continue
		}
		isEmpty = false
		_ = c.Delete(o, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}) // It tries again.
	}
	if !isEmpty {
		return namespaceRetry, nil
	}
	unstructured.RemoveNestedField(namespace.Object, "spec", "finalizers")
	_, err = c.Update(namespace, "finalize")
	return 0, err
}
