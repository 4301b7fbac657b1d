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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/ownership"
)

// DeploymentControl creates, patches and deletes the Deployments of Foos. An error of its methods wraps consistency.ErrStale if a live
// read shows that the cache is stale.
type DeploymentControl struct {
	kubeclientset    kubernetes.Interface
	foos             *FooControl
	consistencyStore *consistency.Store
	fieldManager     string
}

// NewDeploymentControl returns a DeploymentControl that records what it writes in a consistency store.
func NewDeploymentControl(
	kubeclientset kubernetes.Interface, foos *FooControl, consistencyStore *consistency.Store, fieldManager string,
) *DeploymentControl {
	return &DeploymentControl{kubeclientset, foos, consistencyStore, fieldManager}
}

// Create creates the desired Deployment of a Foo, and returns the response. If the API server has a Deployment of that name already, a
// live read shows which Foo, if any, controls it: the error is a name conflict, or says that the cache is stale.
func (c *DeploymentControl) Create(
	ctx context.Context, foo *samplev1alpha1.Foo, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	logger := klog.FromContext(ctx)
	client := c.kubeclientset.AppsV1().Deployments(desired.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: c.fieldManager})
	if err == nil {
		logger.V(2).Info("Created Deployment", "resourceVersion", created.ResourceVersion)
		c.expect(foo, created)
		return created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	existing, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Deployment exists; read it from the API server", "resourceVersion", existing.ResourceVersion)
	if !ownership.Controls(foo, existing) {
		return nil, foostatus.NameConflict(existing.Name)
	}
	c.expect(foo, existing)
	return nil, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// Patch patches a Deployment of a Foo from the state in which it was found to the desired state, and returns the response. The error is a
// conflict if the Deployment has changed since it was found.
func (c *DeploymentControl) Patch(
	ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	patch, err := mergePatch(found, desired)
	if err != nil {
		return nil, err
	}
	patched, err := c.kubeclientset.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: c.fieldManager})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Patched Deployment", "resourceVersion", patched.ResourceVersion, "patch", string(patch))
	c.expect(foo, patched)
	return patched, nil
}

// expect makes the next sync of a Foo wait until the cache has a Deployment as it is now.
func (c *DeploymentControl) expect(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) {
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), appsv1.Resource("deployments"), deployment.ResourceVersion)
}

// mergePatch returns the strategic merge patch from current to desired. It carries the resourceVersion of current, so that the API
// server responds with a conflict if the Deployment has changed since. Fields that this version of the Go types does not have survive.
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

// Delete deletes a superseded Deployment of a Foo after live reads of the Foo, which may have its old name again, and of its current
// Deployment, which may be gone. The error is a conflict if the superseded Deployment has changed since it was found.
func (c *DeploymentControl) Delete(ctx context.Context, foo *samplev1alpha1.Foo, superseded, current *appsv1.Deployment) error {
	if err := c.foos.EnsureCurrent(ctx, foo); err != nil {
		return err
	}
	client := c.kubeclientset.AppsV1().Deployments(foo.Namespace)
	live, err := client.Get(ctx, current.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !(ownership.Controls(foo, live) && foostatus.CanTakeOver(live)) {
		return fmt.Errorf("%w: Deployment %q has changed", consistency.ErrStale, current.Name)
	}
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	logger.V(4).Info("Read Deployment from the API server; it can take over", "deployment", klog.KObj(live))
	err = client.Delete(ctx, superseded.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Deployment %q is gone", consistency.ErrStale, superseded.Name)
	}
	if err != nil {
		return err
	}
	logger.V(2).Info("Deleted superseded Deployment", "deployment", klog.KObj(superseded))
	return nil
}
