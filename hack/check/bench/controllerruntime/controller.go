// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// fooReconciler reconciles Foos. Its client reads from the Manager's cache, and writes to the API server.
type fooReconciler struct {
	client.Client
	scheme   *runtime.Scheme
	recorder events.EventRecorder
}

// Reconcile creates or corrects the Deployment of a Foo, and reports it in the Foo's status. If it returns an error, it is called again
// with backoff.
func (r *fooReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var foo samplev1alpha1.Foo
	if err := r.Get(ctx, request.NamespacedName, &foo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !foo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: foo.Spec.DeploymentName, Namespace: foo.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		if deployment.UID != "" && !metav1.IsControlledBy(deployment, &foo) {
			return fmt.Errorf("resource %q already exists and is not managed by Foo", deployment.Name)
		}
		setDesiredState(deployment, &foo)
		return controllerutil.SetControllerReference(&foo, deployment, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	isWritten := result != controllerutil.OperationResultNone
	if isWritten {
		ctrl.LoggerFrom(ctx).V(2).Info("Reconciled Deployment", "deployment", deployment.Name, "result", result)
	}

	isObserved := foo.Status.ObservedGeneration == foo.Generation
	if err := r.updateStatus(ctx, &foo, deployment); err != nil {
		return ctrl.Result{}, err
	}
	if !isObserved || isWritten {
		r.recorder.Eventf(&foo, deployment, corev1.EventTypeNormal, "Synced", "Sync", "Foo synced successfully")
	}
	return ctrl.Result{}, nil
}

// setDesiredState sets the fields that a Foo controls on a new or existing Deployment.
func setDesiredState(deployment *appsv1.Deployment, foo *samplev1alpha1.Foo) {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	for key, value := range labels {
		metav1.SetMetaDataLabel(&deployment.ObjectMeta, key, value)
		metav1.SetMetaDataLabel(&deployment.Spec.Template.ObjectMeta, key, value)
	}
	if deployment.Spec.Selector == nil {
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	}
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = foo.Spec.Replicas
	}
	pod := &deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "nginx" })
	if i < 0 {
		i = len(pod.Containers)
		pod.Containers = append(pod.Containers, corev1.Container{Name: "nginx"})
	}
	pod.Containers[i].Image = "nginx:latest"
}

// updateStatus reports the rollout of a Deployment in the status of its Foo, if that differs.
func (r *fooReconciler) updateStatus(ctx context.Context, foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) error {
	old := foo.Status.DeepCopy()
	desired := ptr.Deref(deployment.Spec.Replicas, 1)
	foo.Status.ObservedGeneration = foo.Generation
	foo.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	foo.Status.Replicas = deployment.Status.Replicas
	foo.Status.Selector = metav1.FormatLabelSelector(deployment.Spec.Selector)
	ready := metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation,
		Reason:  "DeploymentProgressing",
		Message: fmt.Sprintf("%d of %d replicas available", deployment.Status.AvailableReplicas, desired),
	}
	if deployment.Status.ObservedGeneration >= deployment.Generation && deployment.Status.AvailableReplicas >= desired {
		ready.Status, ready.Reason = metav1.ConditionTrue, "DeploymentAvailable"
	}
	meta.SetStatusCondition(&foo.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(old, &foo.Status) {
		return nil
	}
	return r.Status().Update(ctx, foo)
}
