// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package writer makes the requests that create, patch and delete the Deployments of Foos. Preconditions and live reads make a request
// fail if it was computed from a stale cache. The package decides neither what is written nor when.
package writer

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/ownership"
)

// Writer writes the Deployments of Foos. An error of its methods is a StalledError if the API server rejects what is written, and wraps
// consistency.ErrStale if a live read shows that the cache is stale.
type Writer struct {
	kubeclientset    kubernetes.Interface
	sampleclientset  clientset.Interface
	consistencyStore *consistency.Store
	fieldManager     string
}

// New returns a Writer that records its writes in a consistency store.
func New(
	kubeclientset kubernetes.Interface, sampleclientset clientset.Interface, consistencyStore *consistency.Store, fieldManager string,
) *Writer {
	return &Writer{kubeclientset, sampleclientset, consistencyStore, fieldManager}
}

// Create creates the desired Deployment of a Foo, and returns the response. If the API server has a Deployment of that name already, a
// live read shows which Foo, if any, controls it: the error is a name conflict, or says that the cache is stale.
func (w *Writer) Create(ctx context.Context, foo *samplev1alpha1.Foo, desired *appsv1.Deployment) (*appsv1.Deployment, error) {
	logger := klog.FromContext(ctx)
	client := w.kubeclientset.AppsV1().Deployments(desired.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: w.fieldManager})
	if err == nil {
		logger.V(2).Info("Created Deployment", "resourceVersion", created.ResourceVersion)
		w.wrote(foo, created)
		return created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, foostatus.AsStalled(err)
	}
	existing, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Deployment exists; read it from the API server", "resourceVersion", existing.ResourceVersion)
	if !ownership.Controls(foo, existing) {
		return nil, foostatus.NameConflict(existing.Name)
	}
	w.wrote(foo, existing)
	return nil, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// Patch patches a Deployment of a Foo from the state in which it was found to the desired state, and returns the response. The error is a
// conflict if the Deployment has changed since it was found.
func (w *Writer) Patch(ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment) (*appsv1.Deployment, error) {
	patch, err := mergePatch(found, desired)
	if err != nil {
		return nil, err
	}
	patched, err := w.kubeclientset.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: w.fieldManager})
	if err != nil {
		return nil, foostatus.AsStalled(err)
	}
	klog.FromContext(ctx).V(2).Info("Patched Deployment", "resourceVersion", patched.ResourceVersion, "patch", string(patch))
	w.wrote(foo, patched)
	return patched, nil
}

// wrote makes the next sync of a Foo wait until the cache has a Deployment as it is now.
func (w *Writer) wrote(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) {
	w.consistencyStore.WroteAt(cache.MetaObjectToName(foo), appsv1.Resource("deployments"), deployment.ResourceVersion)
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
func (w *Writer) Delete(ctx context.Context, foo *samplev1alpha1.Foo, superseded, current *appsv1.Deployment) error {
	if err := w.EnsureCurrent(ctx, foo); err != nil {
		return err
	}
	client := w.kubeclientset.AppsV1().Deployments(foo.Namespace)
	live, err := client.Get(ctx, current.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !(ownership.Controls(foo, live) && foostatus.CanTakeOver(live)) {
		return fmt.Errorf("%w: Deployment %q has changed", consistency.ErrStale, current.Name)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(4).Info("Read Deployment from the API server; it can take over", "deployment", klog.KObj(live))
	err = client.Delete(ctx, superseded.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Deployment %q is gone", consistency.ErrStale, superseded.Name)
	}
	if err != nil {
		return foostatus.AsStalled(err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted superseded Deployment", "deployment", klog.KObj(superseded))
	return nil
}

// EnsureCurrent reads a Foo from the API server, and returns an error if that one has another UID or spec than the cached Foo, or is being
// deleted. Generations are not compared: after etcd was restored from an older snapshot they may be equal.
func (w *Writer) EnsureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	live, err := w.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != foo.UID || !equality.Semantic.DeepEqual(live.Spec, foo.Spec) || live.DeletionTimestamp != nil {
		return fmt.Errorf("%w: Foo %q has changed", consistency.ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}
