// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package control makes the requests of a controller. Preconditions and live reads make a write fail where a stale
// cache could do harm, and pauses keep the controller from writing as fast as others change, delete or reject what it
// writes.
package control

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// Control updates the status of Foos. It holds what all Owned share: the consistency store, and the pauses after
// writes.
type Control struct {
	ConsistencyStore *consistency.ConsistencyStore
	fooClient        clientset.Interface
	fieldManager     string
	pacer            pacer
	olderCRD         sync.Once // It is logged once that the CRD is older than this controller.
}

// New returns the Control of Foos, which are read from the cache.
func New(logger klog.Logger, client clientset.Interface, cached cache.Store, fieldManager string) *Control {
	store := consistency.NewConsistencyStore(logger)
	store.Add(samplev1alpha1.Resource("foos"), cached)
	return &Control{ConsistencyStore: store, fooClient: client, fieldManager: fieldManager}
}

// Run forgets, until ctx is done, the pauses that ended long ago.
func (c *Control) Run(ctx context.Context) { c.pacer.run(ctx) }

// ensureCurrent returns an error if a live read finds a Foo with another UID or spec, or one that is being
// deleted. Generations are not compared: after etcd was restored from an older snapshot they may be equal.
func (c *Control) ensureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	client := c.fooClient.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	live, err := client.Get(ctx, foo.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: Foo %q is gone", consistency.ErrStale, foo.Name)
	case err != nil:
		return err
	case live.UID != foo.UID, live.DeletionTimestamp != nil, !equality.Semantic.DeepEqual(live.Spec, foo.Spec):
		c.expect(foo, samplev1alpha1.Resource("foos"), live)
		return fmt.Errorf("%w: Foo %q has changed", consistency.ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}

// expect makes the next sync of a Foo wait until the cache has an object as it is now.
func (c *Control) expect(foo *samplev1alpha1.Foo, resource schema.GroupResource, object metav1.Object) {
	c.ConsistencyStore.WroteAt(cache.MetaObjectToName(foo), resource, object.GetResourceVersion())
}

// UpdateFooStatus updates the status of a Foo if it differs, and nothing else. It returns the Foo as it is
// stored. That an older CRD does not store the status, or parts of it, is no error. The error is
// ErrPaused if the status was updated less than half a second ago.
func (c *Control) UpdateFooStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus,
) (*samplev1alpha1.Foo, error) {
	logger := klog.FromContext(ctx)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	logger.V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if !differs {
		return foo, nil
	}
	if !c.pacer.mayUpdateStatus(foo.UID) {
		return nil, ErrPaused
	}
	fooCopy := foo.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	fooCopy.Status = status
	client := c.fooClient.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	updated, err := client.UpdateStatus(ctx, fooCopy, metav1.UpdateOptions{
		FieldManager: c.fieldManager, FieldValidation: metav1.FieldValidationIgnore, // See olderCRD.
	})
	switch {
	case apierrors.IsNotFound(err) && !IsRejection(err) && c.ensureCurrent(ctx, foo) == nil:
		updated = foo // The Foo exists, so it is the status subresource that does not.
	case apierrors.IsConflict(err): // The cache is stale, and the status in it may be the one to write by the next sync.
		if live, err := client.Get(ctx, foo.Name, metav1.GetOptions{}); err == nil {
			c.expect(foo, samplev1alpha1.Resource("foos"), live)
		}
		return nil, err
	case err != nil:
		return nil, err
	default:
		logger.V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
		c.expect(foo, samplev1alpha1.Resource("foos"), updated)
	}
	if !equality.Semantic.DeepEqual(updated.Status, status) {
		c.olderCRD.Do(func() {
			logger.Error(nil, "The CRD of Foo is older than this controller and does not store its status",
				"update", diagnostics.InstallCommand)
		})
	}
	return updated, nil
}
