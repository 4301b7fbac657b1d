// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/ownership"
)

// CreateDeployment creates the desired Deployment of a Foo, and returns the response. Unless it is the first
// one, a live read of the Foo, which may be gone or renamed, precedes it. If the API server has a Deployment of
// that name already, another live read shows whether this is a name conflict or the cache is stale.
func (c *Control) CreateDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	isFirst := foo.Status.ObservedGeneration == 0 && !c.pacer.HasWritten(foo, desired.Name)
	if !isFirst {
		if err := c.ensureCurrent(ctx, foo); err != nil {
			return nil, err
		}
	}
	client := c.kubeclientset.AppsV1().Deployments(desired.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: c.fieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return created, c.answered(ctx, foo, "Created Deployment", desired.Name, created, err)
	}
	existing, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Deployment exists; read it from the API server",
		"resourceVersion", existing.ResourceVersion)
	if !ownership.Controls(foo, existing) {
		return nil, foostatus.NameConflict(existing.Name)
	}
	c.expect(foo, existing)
	return nil, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// CreateOrPatchDeployment creates the desired Deployment of a Foo or, if one was found, patches that.
func (c *Control) CreateOrPatchDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	if found == nil {
		return c.CreateDeployment(ctx, foo, desired)
	}
	return c.PatchDeployment(ctx, foo, found, desired)
}

// PatchDeployment patches a Deployment of a Foo from the state in which it was found to the desired state, and
// returns the response. The error is a conflict if the Deployment has changed since it was found.
func (c *Control) PatchDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	patch, err := mergePatch(found, desired)
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Patching Deployment", "patch", string(patch))
	patched, err := c.kubeclientset.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: c.fieldManager})
	return patched, c.answered(ctx, foo, "Patched Deployment", found.Name, patched, err)
}

// mergePatch returns the strategic merge patch from current to desired. It carries the resourceVersion of
// current, so that the API server responds with a conflict if the Deployment has changed since. Fields that
// this version of the Go types does not have survive.
func mergePatch(current, desired *appsv1.Deployment) ([]byte, error) {
	unversioned := current.DeepCopy()
	unversioned.ResourceVersion = ""
	before, err := json.Marshal(unversioned)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(desired)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, appsv1.Deployment{})
}

// DeleteDeployment deletes a superseded Deployment of a Foo after live reads of the Foo, which may have its old
// name again, and of its current Deployment, which may be gone. The error is a conflict if the superseded
// Deployment has changed since it was found.
func (c *Control) DeleteDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, superseded, current *appsv1.Deployment,
) error {
	if err := c.ensureCurrent(ctx, foo); err != nil {
		return err
	}
	client := c.kubeclientset.AppsV1().Deployments(foo.Namespace)
	live, err := client.Get(ctx, current.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !(ownership.Controls(foo, live) && foostatus.CanTakeOver(live)):
		return fmt.Errorf("%w: Deployment %q has changed", consistency.ErrStale, current.Name)
	case err != nil:
		return err
	}
	klog.FromContext(ctx).V(4).Info("Read Deployment from the API server; it can take over", "current", klog.KObj(live))
	err = client.Delete(ctx, superseded.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Deployment %q is gone", consistency.ErrStale, superseded.Name)
	}
	return c.answered(ctx, foo, "Deleted superseded Deployment", superseded.Name, nil, err)
}

// answered logs and records a write that the API server has accepted. One that it has rejected starts the write
// backoff, too, and becomes a StalledError.
func (c *Control) answered(
	ctx context.Context, foo *samplev1alpha1.Foo, message, name string, stored *appsv1.Deployment, err error,
) error {
	stalled := foostatus.AsStalled(err)
	if err != nil && stalled == nil {
		return err
	}
	c.pacer.Answered(ctx, foo, name)
	if stalled != nil {
		return stalled
	}
	logger := klog.FromContext(ctx)
	if stored != nil { // Nothing is stored after a deletion.
		logger = klog.LoggerWithValues(logger, "resourceVersion", stored.ResourceVersion)
		c.expect(foo, stored)
	}
	logger.V(2).Info(message)
	return nil
}

// expect makes the next sync of a Foo wait until the cache has a Deployment as it is now.
func (c *Control) expect(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) {
	resource := appsv1.Resource("deployments")
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), resource, deployment.ResourceVersion)
}
