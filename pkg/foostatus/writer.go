// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/kubeconfig"
)

// Writer writes the statuses of Foos, and remembers those that the API server does not store.
type Writer struct {
	Unstored

	client clientset.Interface
}

// NewWriter returns a Writer for the Foos of a client.
func NewWriter(client clientset.Interface) *Writer { return &Writer{client: client} }

// UpdateStatus writes the status of a Foo, and nothing else of it, and returns the Foo as the API server has stored it.
func (w *Writer) UpdateStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus, options metav1.UpdateOptions,
) (*samplev1alpha1.Foo, error) {
	fooCopy := foo.DeepCopy()
	fooCopy.Status = status
	updated, err := w.client.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy, options)
	if apierrors.IsNotFound(err) && consistency.EnsureCurrent(ctx, w.client, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(updated.Status, status) {
		w.Clear()
	} else if w.Add(foo, status) {
		klog.FromContext(ctx).Error(nil, "The CustomResourceDefinition of Foo is older than this controller and does not store its status; update it",
			"command", kubeconfig.InstallCommand)
	}
	return updated, nil
}
