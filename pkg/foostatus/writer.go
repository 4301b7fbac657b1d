// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/kubeconfig"
)

// Writer writes the statuses of Foos. It remembers those that the API server does not store as they were written, because the installed
// CRD is older than this program: it has no status subresource, or its schema lacks fields. Each resync would write them again.
type Writer struct {
	client clientset.Interface
	// unstored has, by cache.ObjectName, the Foos with the statuses that were not stored.
	unstored sync.Map
	warning  sync.Once
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
		w.unstored.Clear() // If the CRD was older, it has been updated.
		return updated, nil
	}
	w.unstored.Store(cache.MetaObjectToName(foo), fooCopy)
	w.warning.Do(func() {
		klog.FromContext(ctx).Error(nil, "The CustomResourceDefinition of Foo is older than this controller and does not store its status; "+
			"update it and restart the controller", "command", kubeconfig.InstallCommand)
	})
	return updated, nil
}

// WithWrittenStatus returns a Foo with the status that was last written for it: the given one, or a copy if that was not stored.
func (w *Writer) WithWrittenStatus(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo {
	unstored, ok := w.unstored.Load(cache.MetaObjectToName(foo))
	if !ok || unstored.(*samplev1alpha1.Foo).UID != foo.UID {
		return foo
	}
	completed := foo.DeepCopy()
	unstored.(*samplev1alpha1.Foo).Status.DeepCopyInto(&completed.Status)
	return completed
}

// Delete forgets the status of a Foo.
func (w *Writer) Delete(foo cache.ObjectName) { w.unstored.Delete(foo) }
