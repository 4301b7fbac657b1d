// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package writer creates, patches and deletes the Deployments of Foos, and updates the statuses of Foos. It makes writes from a stale
// cache fail, and backs off if the API server rejects a write, or another client keeps changing or deleting a Deployment.
package writer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// Writer makes all writes for Foos but events. IsInBackoff may be called at any time, the other methods not concurrently for the same Foo.
type Writer struct {
	kubeclientset    kubernetes.Interface
	sampleclientset  clientset.Interface
	consistencyStore *consistency.Store
	fieldManager     string
	setDesiredState  func(*appsv1.Deployment, *samplev1alpha1.Foo)
	// startResourceVersion is the resourceVersion of the cache of Foos when the workers were started.
	startResourceVersion string

	// Each kind of writes of Deployments has a backoff of its own: while patches are rejected, a deleted Deployment is created at once.
	creations, patches, deletions *Backoff
	backoffs                      []*Backoff

	// unstored maps the cache.ObjectName of a Foo to a copy with the status that the API server has not stored as it was written, because
	// the installed CRD is older than this program: it has no status subresource, or its schema lacks fields.
	unstored sync.Map
	warnOnce sync.Once
}

// New returns a Writer that records its writes in a consistency store. setDesiredState sets the fields of a Deployment that a Foo
// controls.
func New(
	kubeclientset kubernetes.Interface, sampleclientset clientset.Interface, consistencyStore *consistency.Store, fieldManager string,
	setDesiredState func(*appsv1.Deployment, *samplev1alpha1.Foo),
) *Writer {
	w := &Writer{
		kubeclientset: kubeclientset, sampleclientset: sampleclientset, consistencyStore: consistencyStore, fieldManager: fieldManager,
		setDesiredState: setDesiredState,
	}
	w.creations, w.patches, w.deletions = w.NewBackoff(), w.NewBackoff(), w.NewBackoff()
	return w
}

// Start starts the removal of expired backoffs, which ends when ctx is done. Call it after the caches have synced and before the first
// write, with the resourceVersion of the cache of Foos.
func (w *Writer) Start(ctx context.Context, resourceVersion string) {
	w.startResourceVersion = resourceVersion
	for _, b := range w.backoffs {
		go wait.Until(b.delays.GC, time.Minute, ctx.Done())
	}
}

// Forget drops what is kept for a Foo that no longer exists. Its backoffs expire by themselves.
func (w *Writer) Forget(foo cache.ObjectName) {
	for _, b := range w.backoffs {
		b.rejections.Delete(foo)
	}
	w.unstored.Delete(foo)
}

// CreateOrPatch creates the desired Deployment of a Foo or, if one was found in the cache, patches that. It returns the Deployment, if
// there is one, and whether this call has brought it into its desired state. The error is a StalledError if a user has to act, and wraps
// consistency.ErrStale if a cache is stale.
func (w *Writer) CreateOrPatch(
	ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment,
) (*appsv1.Deployment, bool, error) {
	backoff := w.patches
	if found == nil {
		backoff = w.creations
	}
	rejection := backoff.LastRejection(foo)
	if backoff.IsRunning(foo) { // What is reported is not updated: others may change the Deployment at any rate.
		klog.FromContext(ctx).V(4).Info("Deployment is in backoff", "backoff", backoff.duration(foo))
		return found, false, cmp.Or(rejection, foostatus.Reported(foo, foostatus.DeploymentOverridden),
			error(foostatus.Overridden(found, desired)))
	}
	if w.mayBeStale(foo, found) {
		if err := w.EnsureCurrent(ctx, foo); err != nil {
			return nil, false, err
		}
	}
	var written *appsv1.Deployment
	var err error
	if found == nil {
		written, err = w.create(ctx, foo, desired)
	} else {
		written, err = w.patch(ctx, found, desired)
	}
	if err != nil {
		return found, false, backoff.StartIfRejected(foo, err)
	}
	w.consistencyStore.WroteAt(cache.MetaObjectToName(foo), appsv1.Resource("deployments"), written.ResourceVersion)

	expected := written.DeepCopy()
	w.setDesiredState(expected, foo)
	if !equality.Semantic.DeepEqual(written, expected) { // Admission has changed what was written, and would change a patch as well.
		overridden := foostatus.Overridden(written, expected)
		backoff.Start(foo, overridden)
		if found == nil {
			w.patches.Start(foo, overridden)
		}
		return written, false, overridden
	}
	if foo.IsObserved() {
		backoff.Start(foo, nil)
	}
	if rejection == nil && foostatus.Reported(foo, foostatus.DeploymentOverridden) != nil {
		// This is reported until the Deployment has stayed in its desired state for a while.
		return written, true, foostatus.Overridden(found, desired)
	}
	return written, true, nil
}

// mayBeStale reports whether a write for a cached Foo requires a live read, because the Foo may have been changed or deleted while its
// watch was interrupted. The first write for a new spec does not, unless the Foo has not changed since the controller started: an earlier
// leader may have written for an even newer spec.
func (w *Writer) mayBeStale(foo *samplev1alpha1.Foo, found *appsv1.Deployment) bool {
	if foo.IsObserved() || slices.ContainsFunc(w.backoffs, func(b *Backoff) bool { return b.duration(foo) > 0 }) {
		return true
	}
	isNew := found == nil && foo.Status.ObservedGeneration == 0
	order, err := resourceversion.CompareResourceVersion(foo.ResourceVersion, w.startResourceVersion)
	return !isNew && err == nil && order <= 0
}

// EnsureCurrent reads a Foo from the API server. It returns an error that wraps consistency.ErrStale if that one has another UID or spec
// than the cached Foo, or is being deleted. Generations are not compared: after etcd was restored from an older snapshot they may be equal.
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

// create creates a Deployment that is not in the cache. If the API server has one of that name, a live read shows which Foo, if any,
// controls it.
func (w *Writer) create(ctx context.Context, foo *samplev1alpha1.Foo, desired *appsv1.Deployment) (*appsv1.Deployment, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", klog.KObj(desired))
	client := w.kubeclientset.AppsV1().Deployments(desired.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: w.fieldManager})
	if err == nil {
		logger.V(2).Info("Created Deployment", "resourceVersion", created.ResourceVersion)
	}
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	existing, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Deployment exists; read it from the API server", "resourceVersion", existing.ResourceVersion)
	if !foo.Controls(existing) {
		return nil, foostatus.NameConflict(existing.Name)
	}
	w.consistencyStore.WroteAt(cache.MetaObjectToName(foo), appsv1.Resource("deployments"), existing.ResourceVersion)
	return nil, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// patch patches a Deployment to its desired state, unless it has changed since it was read.
func (w *Writer) patch(ctx context.Context, found, desired *appsv1.Deployment) (*appsv1.Deployment, error) {
	patch, err := mergePatch(found, desired)
	if err != nil {
		return nil, err
	}
	patched, err := w.kubeclientset.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: w.fieldManager})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Patched Deployment", "deployment", klog.KObj(patched), "resourceVersion", patched.ResourceVersion,
			"patch", string(patch))
	}
	return patched, err
}

// mergePatch returns the strategic merge patch from current to desired. It carries the resourceVersion of current, so that the API
// server answers with a conflict if the Deployment has changed since. Fields that this version of the Go types does not have survive.
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

// Delete deletes a superseded Deployment of a Foo, unless the current one cannot take over. The error is a StalledError if the API server
// rejects the deletion, a conflict if the superseded Deployment has changed since it was read, and wraps consistency.ErrStale if the Foo or
// the current Deployment has.
func (w *Writer) Delete(ctx context.Context, foo *samplev1alpha1.Foo, superseded, current *appsv1.Deployment) error {
	if rejection := w.deletions.LastRejection(foo); rejection != nil && w.deletions.IsRunning(foo) {
		return rejection
	}
	// The caches may be stale: the Foo may desire this Deployment again, and the current one may be gone.
	if err := w.EnsureCurrent(ctx, foo); err != nil {
		return err
	}
	client := w.kubeclientset.AppsV1().Deployments(foo.Namespace)
	live, err := client.Get(ctx, current.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !(foo.Controls(live) && foostatus.CanTakeOver(live)) {
		return fmt.Errorf("%w: Deployment %q has changed", consistency.ErrStale, current.Name)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(4).Info("Read Deployment from the API server; it can take over", "deployment", klog.KObj(live))
	err = client.Delete(ctx, superseded.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
	})
	if err != nil {
		return w.deletions.StartIfRejected(foo, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted superseded Deployment", "deployment", klog.KObj(superseded))
	return nil
}
