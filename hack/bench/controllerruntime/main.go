// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controllerruntime is a controller of Foos written with controller-runtime, in the style of its documentation. It has the
// features that the benchmark exercises: owner references, drift correction, conditions, observedGeneration and events.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func main() {
	workers := flag.Int("workers", 2, "`number` of Foos to reconcile concurrently")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(*workers); err != nil {
		log.Fatal(err)
	}
}

func run(workers int) error {
	config, err := ctrl.GetConfig() // Uses -kubeconfig, which the package registers.
	if err != nil {
		return err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, samplev1alpha1.Install} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	reconciler := &fooReconciler{Client: manager.GetClient(), scheme: scheme, recorder: manager.GetEventRecorder("controllerruntime")}
	err = ctrl.NewControllerManagedBy(manager).
		For(&samplev1alpha1.Foo{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

type fooReconciler struct {
	client.Client
	scheme   *runtime.Scheme
	recorder events.EventRecorder
}

// Reconcile reconciles the Deployment and the status of a Foo.
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
		labels := map[string]string{"app": "nginx", "controller": foo.Name}
		setLabels(&deployment.ObjectMeta, labels)
		if foo.Spec.Replicas != nil {
			deployment.Spec.Replicas = foo.Spec.Replicas
		}
		if deployment.Spec.Selector == nil {
			deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
		setLabels(&deployment.Spec.Template.ObjectMeta, labels)
		setImage(&deployment.Spec.Template.Spec, corev1.Container{Name: "nginx", Image: "nginx:latest"})
		return controllerutil.SetControllerReference(&foo, deployment, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}

	newGeneration := foo.Status.ObservedGeneration != foo.Generation
	old := foo.Status.DeepCopy()
	setStatus(&foo, deployment)
	if !equality.Semantic.DeepEqual(old, &foo.Status) {
		if err := r.Status().Update(ctx, &foo); err != nil {
			return ctrl.Result{}, err
		}
	}
	if newGeneration || result != controllerutil.OperationResultNone {
		r.recorder.Eventf(&foo, deployment, corev1.EventTypeNormal, "Synced", "Sync", "Foo synced successfully")
	}
	return ctrl.Result{}, nil
}

func setLabels(object *metav1.ObjectMeta, labels map[string]string) {
	for key, value := range labels {
		metav1.SetMetaDataLabel(object, key, value)
	}
}

func setImage(pod *corev1.PodSpec, desired corev1.Container) {
	for i := range pod.Containers {
		if pod.Containers[i].Name == desired.Name {
			pod.Containers[i].Image = desired.Image
			return
		}
	}
	pod.Containers = append(pod.Containers, desired)
}

func setStatus(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) {
	desired := int32(1)
	if deployment.Spec.Replicas != nil {
		desired = *deployment.Spec.Replicas
	}
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
}
