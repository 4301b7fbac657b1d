// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controllerruntime is the ninth stage, written with controller-runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func main() {
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig() // It uses the flag -kubeconfig, which the package adds.
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), config)
	}
	if err != nil {
		klog.Fatal(err)
	}
}

// renewDeadline is for how long after a renewal of the Lease this instance may write. Another one can take over after 15 seconds.
const renewDeadline = 10 * time.Second

// run runs the controller in the cluster of config while this instance holds the Lease, until ctx is done. If the Lease is lost, it returns
// an error, and the process must exit.
func run(ctx context.Context, config *rest.Config) error {
	guarded, renewed := rest.CopyConfig(config), &atomic.Pointer[time.Time]{}
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next, renewed} })
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), samplev1alpha1.Install(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(guarded, ctrl.Options{
		Scheme: scheme, Logger: klog.FromContext(ctx), Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		// It is not released at the end: a write that the Manager has canceled then may still arrive.
		LeaderElection: true, LeaderElectionID: "sample-controller", LeaderElectionNamespace: "default", RenewDeadline: new(renewDeadline),
	})
	if err != nil {
		return err
	}
	r := &fooReconciler{mgr.GetClient(), mgr.GetAPIReader(), flowcontrol.NewBackOff(time.Second, 15*time.Minute)}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(context.Context) { r.pauses.GC() }, time.Minute) // Those that ended long ago.
		return nil
	})); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&samplev1alpha1.Foo{}).
		Owns(&appsv1.Deployment{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.waiting)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 2,
			ReconciliationTimeout:   30 * time.Second, // It ends the wait for a write that the cache never gets.
			SkipNameValidation:      new(true),        // A test runs several instances in one process.
		}).
		Complete(reconcile.AsReconciler(r.Client, r)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

var errNotLeading = errors.New("this instance may have lost the Lease")

// guard rejects writes of an instance that may have lost the Lease. The renewals of the Lease go through it, too.
type guard struct {
	next    http.RoundTripper
	renewed *atomic.Pointer[time.Time] // when the last renewal was sent, or nil if there was none, or if it failed
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return g.next.RoundTrip(r)
	}
	if strings.Contains(r.URL.Path, "/apis/coordination.k8s.io/") {
		sent := time.Now()
		response, err := g.next.RoundTrip(r)
		if err == nil && response.StatusCode < http.StatusMultipleChoices {
			g.renewed.Store(&sent)
		} else {
			g.renewed.Store(nil)
		}
		return response, err
	}
	if renewed := g.renewed.Load(); renewed == nil || time.Since(*renewed) > renewDeadline {
		return nil, errNotLeading
	}
	return g.next.RoundTrip(r)
}

// fooReconciler reconciles Foos. Its Client reads from the caches.
type fooReconciler struct {
	client.Client
	live   client.Reader        // reads from the API server
	pauses *flowcontrol.Backoff // between two writes, by what pauseOf returns
}

// waiting returns requests for the Foos that desire the name of a Deployment.
func (r *fooReconciler) waiting(ctx context.Context, deployment client.Object) (requests []reconcile.Request) {
	var foos samplev1alpha1.FooList
	if err := r.List(ctx, &foos, client.InNamespace(deployment.GetNamespace()), client.DisableReadYourWritesConsistency); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Foos")
	}
	for _, foo := range foos.Items {
		if foo.Spec.DeploymentName == deployment.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&foo)})
		}
	}
	return requests
}

// Reconcile brings the Deployment of a Foo to its desired state, and reports what has become of it.
func (r *fooReconciler) Reconcile(ctx context.Context, foo *samplev1alpha1.Foo) (result reconcile.Result, err error) {
	defer func() {
		if errors.Is(err, errNotLeading) { // Each event counts one more failure, and many of them are retried after minutes.
			result, err = reconcile.Result{RequeueAfter: time.Second}, nil
		}
	}()
	if !foo.DeletionTimestamp.IsZero() {
		return result, nil
	}
	deployment, err := r.syncDeployment(ctx, foo)
	for _, pause := range []string{pauseOf(foo, nil), pauseOf(foo, deployment)} {
		if r.isPaused(pause) {
			result.RequeueAfter = min(r.pauses.Get(pause), time.Minute) // Some of it may be over.
		}
	}
	switch {
	case errors.Is(err, errNotControlled):
		return result, r.updateStatus(ctx, foo, nil, "NameConflict", err.Error())
	case errors.Is(err, errOverridden):
		return result, r.updateStatus(ctx, foo, deployment, "Overridden", err.Error())
	case err != nil:
		return reconcile.Result{}, errors.Join(err, r.updateStatus(ctx, foo, deployment, "Failed", err.Error()))
	}
	if err := r.prune(ctx, foo, deployment); err != nil {
		return reconcile.Result{}, err
	}
	return result, r.updateStatus(ctx, foo, deployment, "Deployed", fmt.Sprintf("%d available", deployment.Status.AvailableReplicas))
}

var (
	errNotControlled = errors.New("this Foo does not control it")                // Its name is taken.
	errOverridden    = errors.New("the last write of the Deployment was undone") // It must not be written during a pause.
)

// updateStatus writes the status of a Foo if it differs.
func (r *fooReconciler) updateStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, reason, message string,
) error {
	updated := foo.DeepCopy()
	status, ready := &updated.Status, metav1.ConditionFalse
	status.ObservedGeneration = foo.Generation
	if status.AvailableReplicas = 0; deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
		if reason == "Deployed" && isAvailable(deployment) {
			ready = metav1.ConditionTrue
		}
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: ready, ObservedGeneration: foo.Generation, Reason: reason, Message: message,
	})
	if equality.Semantic.DeepEqual(foo.Status, *status) {
		return nil
	}
	return r.Status().Update(ctx, updated)
}

// syncDeployment creates or scales the Deployment of a Foo, and returns it.
func (r *fooReconciler) syncDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKey{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName}, deployment)
	if apierrors.IsNotFound(err) {
		if r.isPaused(pauseOf(foo, nil)) {
			return nil, errOverridden
		}
		if err := r.ensureCurrent(ctx, foo); err != nil {
			return nil, err
		}
		deployment = newDeployment(foo)
		if err := controllerutil.SetControllerReference(foo, deployment, r.Scheme()); err != nil {
			return nil, err
		}
		return deployment, r.wrote(pauseOf(foo, nil), r.Create(ctx, deployment))
	}
	if err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		return nil, fmt.Errorf("the Deployment %s exists, and %w", deployment.Name, errNotControlled)
	}
	if foo.Spec.Replicas != nil && *deployment.Spec.Replicas != *foo.Spec.Replicas {
		if r.isPaused(pauseOf(foo, deployment)) {
			return deployment, errOverridden
		}
		patch := client.MergeFromWithOptions(deployment.DeepCopy(), client.MergeFromWithOptimisticLock{})
		deployment.Spec.Replicas = foo.Spec.Replicas
		return deployment, r.wrote(pauseOf(foo, deployment), r.Patch(ctx, deployment, patch))
	}
	for _, pause := range []string{pauseOf(foo, nil), pauseOf(foo, deployment)} {
		if !r.isPaused(pause) { // Nobody has undone the last write: the next pause is a first one again.
			r.pauses.Reset(pause)
		}
	}
	return deployment, nil
}

// prune deletes the Deployments that a Foo controls under other names than the current one, which has to be available.
func (r *fooReconciler) prune(ctx context.Context, foo *samplev1alpha1.Foo, current *appsv1.Deployment) error {
	if !isAvailable(current) {
		return nil
	}
	var deployments appsv1.DeploymentList
	if err := r.List(ctx, &deployments, client.InNamespace(foo.Namespace)); err != nil {
		return err
	}
	for _, old := range deployments.Items {
		if old.Name == current.Name || !metav1.IsControlledBy(&old, foo) {
			continue
		}
		if err := r.ensureCurrent(ctx, foo); err != nil {
			return err
		}
		serving := &appsv1.Deployment{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(current), serving)
		if err != nil || !metav1.IsControlledBy(serving, foo) || !isAvailable(serving) {
			return err
		}
		if err := r.Delete(ctx, &old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion}); err != nil {
			return err
		}
	}
	return nil
}

// ensureCurrent returns an error if the Foo in the API server is not the one in the cache, which may be stale. Nothing brings back what is
// deleted, and what is created for a Foo that is gone belongs to nobody.
func (r *fooReconciler) ensureCurrent(ctx context.Context, foo *samplev1alpha1.Foo) error {
	live := &samplev1alpha1.Foo{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(foo), live); err != nil {
		return err
	}
	if live.UID != foo.UID || live.Generation != foo.Generation {
		return errors.New("the cache is stale: the Foo has changed")
	}
	return nil
}

func isAvailable(deployment *appsv1.Deployment) bool {
	return deployment.Status.ObservedGeneration == deployment.Generation && deployment.Status.AvailableReplicas >= *deployment.Spec.Replicas
}

// wrote starts a pause after a write, unless that failed, and returns its error.
func (r *fooReconciler) wrote(pause string, err error) error {
	if err == nil {
		r.pauses.Next(pause, time.Now())
	}
	return err
}

// isPaused reports whether the last write was so recent that another one has to wait.
func (r *fooReconciler) isPaused(pause string) bool {
	return r.pauses.IsInBackOffSinceUpdate(pause, time.Now())
}

// pauseOf returns the name of the pause between two writes of a Deployment or, if it is nil, between two creations. A changed spec does not wait
// for one, nor a creation because changes were undone.
func pauseOf(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) string {
	if deployment == nil {
		deployment = &appsv1.Deployment{}
	}
	return fmt.Sprintf("%s/%d/%s", foo.UID, foo.Generation, deployment.UID)
}

// newDeployment returns the Deployment that a Foo desires.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	podLabels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: podLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}
