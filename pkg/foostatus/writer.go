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

// Writer writes the statuses of Foos. It remembers each status that the API server does not have: because the write failed, or because
// the installed CRD is older than this program, and has no status subresource, or lacks fields. Each resync would write that again.
type Writer struct {
	client clientset.Interface
	// unstored has, by cache.ObjectName, an unstored for each such Foo.
	unstored sync.Map
	warning  sync.Once
}

// unstored is a Foo with a status that the API server does not have. If failed is set, the write has to be retried.
type unstored struct {
	foo    *samplev1alpha1.Foo
	failed bool
}

// NewWriter returns a Writer for the Foos of a client.
func NewWriter(client clientset.Interface) *Writer { return &Writer{client: client} }

// WithLastStatus returns a Foo with the status that was last computed for it: the given one, or a copy if that is not stored.
func (w *Writer) WithLastStatus(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo {
	last, ok := w.unstored.Load(cache.MetaObjectToName(foo))
	if !ok || last.(unstored).foo.UID != foo.UID {
		return foo
	}
	completed := foo.DeepCopy()
	last.(unstored).foo.Status.DeepCopyInto(&completed.Status)
	return completed
}

// NeedsUpdate reports whether a status differs from the last one of a Foo, or that could not be written.
func (w *Writer) NeedsUpdate(foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus) bool {
	last, ok := w.unstored.Load(cache.MetaObjectToName(foo))
	return ok && last.(unstored).failed || !equality.Semantic.DeepEqual(foo.Status, status)
}

// UpdateStatus writes the status of a Foo, and nothing else of it, and returns the Foo as the API server has stored it.
func (w *Writer) UpdateStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus, options metav1.UpdateOptions,
) (*samplev1alpha1.Foo, error) {
	objectRef := cache.MetaObjectToName(foo)
	fooCopy := foo.DeepCopy()
	fooCopy.Status = status
	w.unstored.Store(objectRef, unstored{fooCopy, true})
	updated, err := w.client.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy, options)
	if apierrors.IsNotFound(err) && consistency.EnsureCurrent(ctx, w.client, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(updated.Status, status) {
		w.unstored.Delete(objectRef)
		return updated, nil
	}
	w.unstored.Store(objectRef, unstored{fooCopy, false})
	w.warning.Do(func() {
		klog.FromContext(ctx).Error(nil, "The CustomResourceDefinition of Foo is older than this controller and does not store its status; "+
			"update it and restart the controller", "command", kubeconfig.InstallCommand)
	})
	return updated, nil
}

// Delete forgets the status of a Foo.
func (w *Writer) Delete(foo cache.ObjectName) { w.unstored.Delete(foo) }
