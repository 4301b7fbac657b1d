// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package control makes the requests for Foos and their Deployments. Preconditions and live reads make a
// request fail if it was computed from a stale cache. The package decides neither what is written nor when.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/pacing"
)

// Control makes requests. It records each write in the consistency store, and each answer to a write of a
// Deployment in the pacer. If a live read shows that a cache is stale, the error wraps consistency.ErrStale.
type Control struct {
	KubeClient       kubernetes.Interface
	FooClient        clientset.Interface
	ConsistencyStore *consistency.Store
	Pacer            *pacing.Pacer
	FieldManager     string
	olderCRD         sync.Once // It is logged once that the CRD is older than this controller.
}

// ErrNotControlled means that the name of what is to be created is taken by an object of another controller.
var ErrNotControlled = errors.New("the object exists and has another controller")

// CreateOrPatchDeployment creates the desired Deployment of a Foo or, if one was found, patches that. It
// returns the response. The error is a conflict if the Deployment has changed since it was found, and a
// pacing.PausedError if it was rejected or must not be written yet.
func (c *Control) CreateOrPatchDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	if paused, isPaused := c.Pacer.When(foo, desired); isPaused {
		return nil, paused
	}
	if found == nil {
		return c.createDeployment(ctx, foo, desired)
	}
	patch, err := mergePatch(found, desired)
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Patching Deployment", "patch", string(patch))
	patched, err := c.KubeClient.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: c.FieldManager})
	return patched, c.answered(ctx, foo, "Patched Deployment", found, patched, err)
}

// createDeployment creates the desired Deployment of a Foo. Unless it is the first, a live read of the Foo
// precedes it. If the name exists, a live read shows whether this is a name conflict or the cache is stale.
func (c *Control) createDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, desired *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	if foo.Status.ObservedGeneration > 0 || c.Pacer.HasWritten(foo, desired) { // It is not the first.
		if err := c.ensureCurrent(ctx, foo); err != nil {
			return nil, err
		}
	}
	client := c.KubeClient.AppsV1().Deployments(desired.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: c.FieldManager})
	if !apierrors.IsAlreadyExists(err) || IsRejection(err) {
		return created, c.answered(ctx, foo, "Created Deployment", desired, created, err)
	}
	existing, err := client.Get(ctx, desired.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Deployment exists; read it from the API server",
		"resourceVersion", existing.ResourceVersion)
	if !metav1.IsControlledBy(existing, foo) {
		return nil, ErrNotControlled
	}
	c.expect(foo, appsv1.Resource("deployments"), existing)
	return nil, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// mergePatch returns the strategic merge patch from found to desired. It carries the resourceVersion of found
// as a precondition. Fields that this version of the Go types does not have survive.
func mergePatch(found, desired *appsv1.Deployment) ([]byte, error) {
	from, to := *found, *desired
	from.ResourceVersion, to.ResourceVersion = "", found.ResourceVersion
	from.Status, to.Status = appsv1.DeploymentStatus{}, appsv1.DeploymentStatus{}
	if reflect.DeepEqual(from.Spec.Template, to.Spec.Template) { // Comparing it as JSON takes longer.
		from.Spec.Template, to.Spec.Template = corev1.PodTemplateSpec{}, corev1.PodTemplateSpec{}
	}
	before, err := json.Marshal(&from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(&to)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, appsv1.Deployment{})
}

// DeleteDeployment deletes a superseded Deployment of a Foo after live reads of the Foo, which may need it
// again, and of the current one, which may be gone. The error is a conflict if superseded has changed.
func (c *Control) DeleteDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, superseded, current *appsv1.Deployment,
) error {
	if paused, isPaused := c.Pacer.When(foo, superseded); isPaused {
		return paused
	}
	if err := c.ensureCurrent(ctx, foo); err != nil {
		return err
	}
	client := c.KubeClient.AppsV1().Deployments(foo.Namespace)
	live, err := client.Get(ctx, current.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err != nil, !metav1.IsControlledBy(live, foo), !foostatus.CanTakeOver(live):
		return fmt.Errorf("%w: Deployment %q has changed", consistency.ErrStale, current.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Deployment from the API server; it can take over",
		"current", klog.KObj(live))
	err = client.Delete(ctx, superseded.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
	})
	return c.answered(ctx, foo, "Deleted superseded Deployment", superseded, nil, err)
}

// ensureCurrent returns an error if a live read finds a Foo with another UID or spec, or one that is being
// deleted. Generations are not compared: after etcd was restored from an older snapshot they may be equal.
func (c *Control) ensureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	client := c.FooClient.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	live, err := client.Get(ctx, foo.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err != nil, live.UID != foo.UID, live.DeletionTimestamp != nil,
		!equality.Semantic.DeepEqual(live.Spec, foo.Spec):
		return fmt.Errorf("%w: Foo %q has changed", consistency.ErrStale, foo.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Foo from the API server; it has not changed")
	return nil
}

// answered records a write that the API server has accepted or rejected; for the latter it returns a PausedError.
func (c *Control) answered(
	ctx context.Context, foo *samplev1alpha1.Foo, message string, written, stored *appsv1.Deployment, err error,
) error {
	if IsRejection(err) {
		c.Pacer.Answered(foo, written, err.Error())
		paused, _ := c.Pacer.When(foo, written)
		return paused
	}
	if err != nil {
		return err
	}
	c.Pacer.Answered(foo, written, "")
	logger := klog.FromContext(ctx)
	if stored != nil { // Nothing is stored after a deletion.
		if stored.UID != written.UID { // What was created has a pause of its own.
			c.Pacer.Answered(foo, stored, "")
		}
		logger = klog.LoggerWithValues(logger, "resourceVersion", stored.ResourceVersion)
		c.expect(foo, appsv1.Resource("deployments"), stored)
	}
	logger.V(2).Info(message)
	return nil
}

// expect makes the next sync of a Foo wait until the cache has an object as it is now.
func (c *Control) expect(foo *samplev1alpha1.Foo, resource schema.GroupResource, object metav1.Object) {
	c.ConsistencyStore.WroteAt(cache.MetaObjectToName(foo), resource, object.GetResourceVersion())
}

// UpdateFooStatus updates the status of a Foo if it differs, and nothing else. It returns the Foo as it is
// stored. That an older CRD does not store the status, or parts of it, is no error. The error is a
// pacing.PausedError if the status was updated less than half a second ago.
func (c *Control) UpdateFooStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus,
) (*samplev1alpha1.Foo, error) {
	logger := klog.FromContext(ctx)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	logger.V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if !differs {
		return foo, nil
	}
	if delay := c.Pacer.WhenStatus(foo); delay > 0 {
		return nil, pacing.PausedError{RetryAfter: delay}
	}
	c.Pacer.UpdatesStatus(foo)
	fooCopy := foo.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	fooCopy.Status = status
	client := c.FooClient.SamplecontrollerV1alpha1().Foos(foo.Namespace)
	updated, err := client.UpdateStatus(ctx, fooCopy, metav1.UpdateOptions{
		FieldManager: c.FieldManager, FieldValidation: metav1.FieldValidationIgnore, // See olderCRD.
	})
	switch {
	case apierrors.IsNotFound(err) && !IsRejection(err) && c.ensureCurrent(ctx, foo) == nil:
		updated = foo // The Foo exists, so it is the status subresource that does not.
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

const maxConflicts = 10

// IsRejection reports whether the API server has rejected what was written, so that a retry is in vain until a
// user acts. An admission webhook or policy may do so with any code from 400 to 499, and any reason: who answered
// decides, which only the message says. See k8s.io/apiserver/pkg/admission/plugin/webhook/errors.ToStatusErr.
func IsRejection(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || isNamespaceTerminating(err) { // In such a namespace new objects are Forbidden.
		return false
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	code, message := answer.Status().Code, answer.Status().Message
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		(strings.HasPrefix(message, `admission webhook "`) || strings.Contains(message, ": ValidatingAdmissionPolicy '"))
}

// IsConflict reports whether another client has changed or deleted an object, or deletes its namespace: this is no
// failure unless it goes on. maxConflicts in a row take 5 s, after which the caches should have caught up.
func IsConflict(err error, retries int) bool {
	isConflict := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	return isNamespaceTerminating(err) || isConflict && !IsRejection(err) && retries < maxConflicts
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
