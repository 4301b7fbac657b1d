// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package control makes the requests for Foos and their Deployments. Preconditions and live reads make a request fail if it was computed
// from a stale cache. The package decides neither what is written nor when.
package control

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// FooControl reads Foos from the API server, and updates their status.
type FooControl struct {
	sampleclientset  clientset.Interface
	consistencyStore *consistency.Store
	fieldManager     string
	olderCRD         sync.Once // It is logged once that the CRD is older than this controller.
}

// NewFooControl returns a FooControl that records what it writes in a consistency store.
func NewFooControl(
	sampleclientset clientset.Interface, consistencyStore *consistency.Store, fieldManager string,
) *FooControl {
	return &FooControl{sampleclientset: sampleclientset, consistencyStore: consistencyStore, fieldManager: fieldManager}
}

// EnsureCurrent reads a Foo from the API server, and returns an error if that one has another UID or spec than the cached Foo, or is being
// deleted. Generations are not compared: after etcd was restored from an older snapshot they may be equal.
func (c *FooControl) EnsureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	live, err := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != foo.UID || !equality.Semantic.DeepEqual(live.Spec, foo.Spec) || live.DeletionTimestamp != nil {
		return fmt.Errorf("%w: Foo %q has changed", consistency.ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}

// UpdateStatus updates the status of a Foo, and nothing else of it, and returns the Foo as it is stored. That an older CRD does not
// store the status, or parts of it, is no error.
func (c *FooControl) UpdateStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus,
) (*samplev1alpha1.Foo, error) {
	logger := klog.FromContext(ctx)
	fooCopy := foo.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	fooCopy.Status = status
	updated, err := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy, metav1.UpdateOptions{
		FieldManager: c.fieldManager, FieldValidation: metav1.FieldValidationIgnore, // An older CRD is noticed below.
	})
	if apierrors.IsNotFound(err) && c.EnsureCurrent(ctx, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), samplev1alpha1.Resource("foos"), updated.ResourceVersion)
	if !equality.Semantic.DeepEqual(updated.Status, status) {
		c.olderCRD.Do(func() {
			logger.Error(nil, "The CRD of Foo is older than this controller and does not store its status",
				"update", diagnostics.InstallCommand)
		})
	}
	return updated, nil
}
