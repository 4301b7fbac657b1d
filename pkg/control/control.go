// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package control makes the requests for Foos and their Deployments. Preconditions and live reads make a
// request fail if it was computed from a stale cache. The package decides neither what is written nor when.
package control

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/pacing"
)

// Control makes requests, and records each write of a Deployment: in the consistency store, whose cache is stale
// until it has what was written, and in the pacer. If a live read shows that a cache is stale, the error of a
// method wraps consistency.ErrStale.
type Control struct {
	kubeclientset    kubernetes.Interface
	sampleclientset  clientset.Interface
	consistencyStore *consistency.Store
	pacer            *pacing.Pacer
	fieldManager     string
	olderCRD         sync.Once // It is logged once that the CRD is older than this controller.
}

// New returns a Control.
func New(
	kubeclientset kubernetes.Interface, sampleclientset clientset.Interface,
	consistencyStore *consistency.Store, pacer *pacing.Pacer, fieldManager string,
) *Control {
	return &Control{
		kubeclientset: kubeclientset, sampleclientset: sampleclientset,
		consistencyStore: consistencyStore, pacer: pacer, fieldManager: fieldManager,
	}
}

// ensureCurrent reads a Foo from the API server, and returns an error if that one has another UID or spec
// than the cached Foo, or is being deleted. Generations are not compared: after etcd was restored from an
// older snapshot they may be equal.
func (c *Control) ensureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	client := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	live, err := client.Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	sameSpec := equality.Semantic.DeepEqual(live.Spec, foo.Spec)
	if live.UID != foo.UID || !sameSpec || live.DeletionTimestamp != nil {
		return fmt.Errorf("%w: Foo %q has changed", consistency.ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}

// UpdateFooStatus updates the status of a Foo if it differs, and nothing else of the Foo. It returns the Foo as it
// is stored. That an older CRD does not store the status, or parts of it, is no error.
func (c *Control) UpdateFooStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus,
) (*samplev1alpha1.Foo, error) {
	logger := klog.FromContext(ctx)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	logger.V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if !differs {
		return foo, nil
	}
	fooCopy := foo.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	fooCopy.Status = status
	client := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	updated, err := client.UpdateStatus(ctx, fooCopy, metav1.UpdateOptions{
		FieldManager: c.fieldManager, FieldValidation: metav1.FieldValidationIgnore, // See olderCRD.
	})
	if apierrors.IsNotFound(err) && c.ensureCurrent(ctx, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	resource := samplev1alpha1.Resource("foos")
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), resource, updated.ResourceVersion)
	if !equality.Semantic.DeepEqual(updated.Status, status) {
		c.olderCRD.Do(func() {
			logger.Error(nil, "The CRD of Foo is older than this controller and does not store its status",
				"update", diagnostics.InstallCommand)
		})
	}
	return updated, nil
}
