// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/kubeconfig"
)

// UpdateStatus writes the status of a Foo if it differs, and nothing else of the Foo. A status that an older CRD does not store is kept for
// WithWrittenStatus, which is not an error.
func (w *Writer) UpdateStatus(ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus) error {
	logger := klog.FromContext(ctx)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	logger.V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if !differs {
		return nil
	}
	fooCopy := foo.DeepCopy()
	fooCopy.Status = status
	updated, err := w.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy,
		metav1.UpdateOptions{FieldManager: w.fieldManager})
	if apierrors.IsNotFound(err) && w.EnsureCurrent(ctx, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return err
	}
	logger.V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	w.consistencyStore.WroteAt(cache.MetaObjectToName(foo), samplev1alpha1.Resource("foos"), updated.ResourceVersion)
	if equality.Semantic.DeepEqual(updated.Status, status) {
		w.unstored.Clear() // If the CRD was older, it has been updated.
		return nil
	}
	w.unstored.Store(cache.MetaObjectToName(foo), fooCopy)
	w.warnOnce.Do(func() {
		logger.Error(nil, "The CustomResourceDefinition of Foo is older than this controller and does not store its status; "+
			"update it and restart the controller", "command", kubeconfig.InstallCommand)
	})
	return nil
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
