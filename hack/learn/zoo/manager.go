// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"k8s.io/sample-controller/hack/simulation"
)

// resyncPeriod is that of all caches.
const resyncPeriod = 4 * time.Minute

// kube is what a reconciler has: a client that reads from the cache, and a reader that does not.
type kube struct {
	client.Client
	live client.Reader
}

// patch changes an object, if it is still what was found in the cache. An update would drop the fields that its Go type does not know.
func (k kube) patch(ctx context.Context, changed, found client.Object) error {
	return k.Patch(ctx, changed, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{}))
}

// createOf creates the child that has the name of its App. If it is careful, the App in the API server has to be the one in the cache.
func (k kube) createOf(ctx context.Context, app *App, child client.Object, isCareful bool) error {
	live := app
	if isCareful {
		live = &App{}
		if err := k.live.Get(ctx, client.ObjectKeyFromObject(app), live); err != nil {
			return err
		}
	}
	if live.UID != app.UID || live.Generation != app.Generation {
		return fmt.Errorf("the cache has generation %d of the App, and the API server generation %d", app.Generation, live.Generation)
	}
	return k.createNamed(ctx, child, app.Name)
}

// createNamed creates a child, unless something else has its name: the deletion of that is an event.
func (k kube) createNamed(ctx context.Context, child client.Object, name string) error {
	child.SetName(name)
	err := k.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// patchStatus is patch for the status of an App, unless it has not changed.
func (k kube) patchStatus(ctx context.Context, app *App, status AppStatus) error {
	if app.Status == status {
		return nil
	}
	changed := app.DeepCopy()
	changed.Status = status
	return k.Status().Patch(ctx, changed, client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{}))
}

// configMapsOf returns the ConfigMaps that an App controls.
func configMapsOf(ctx context.Context, reader client.Reader, app *App) (its []corev1.ConfigMap, err error) {
	all := &corev1.ConfigMapList{}
	if err := reader.List(ctx, all, client.InNamespace(app.Namespace)); err != nil {
		return nil, err
	}
	for _, o := range all.Items {
		if metav1.IsControlledBy(&o, app) {
			its = append(its, o)
		}
	}
	return its, nil
}

// reconcile reconciles an App, as the cache has it.
type reconcile func(ctx context.Context, k kube, app *App) error

// managed returns a program that runs a reconciler in a controller-runtime Manager. A change of a child may concern any App: its owner, or
// one that waits for its name.
func managed(r reconcile, children ...client.Object) simulation.Program {
	return prepared(func(ctrl.Manager) error { return nil }, r, children...)
}

// prepared is managed with a Manager that is prepared before it starts.
func prepared(prepare func(ctrl.Manager) error, r reconcile, children ...client.Object) simulation.Program {
	return func(ctx context.Context, restConfig *rest.Config) error {
		all := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, install} {
			if err := add(all); err != nil {
				return err
			}
		}
		manager, err := ctrl.NewManager(restConfig, ctrl.Options{
			Scheme: all, Logger: klog.FromContext(ctx), Metrics: metricsserver.Options{BindAddress: "0"},
			Cache:      cache.Options{SyncPeriod: new(resyncPeriod)},
			Controller: config.Controller{SkipNameValidation: new(true)}, // Each instance has a controller of this name.
		})
		if err != nil {
			return err
		}
		if err := prepare(manager); err != nil {
			return err
		}
		k := kube{manager.GetClient(), manager.GetAPIReader()}
		builder := ctrl.NewControllerManagedBy(manager).For(&App{})
		for _, child := range children {
			builder.Watches(child, handler.EnqueueRequestsFromMapFunc(k.allApps))
		}
		if err := builder.Complete(reconciler{k, r}); err != nil {
			return err
		}
		return manager.Start(ctx)
	}
}

// allApps returns requests for all Apps that are in the cache.
func (k kube) allApps(ctx context.Context, _ client.Object) (requests []ctrl.Request) {
	apps := &AppList{}
	if k.List(ctx, apps) != nil {
		return nil // The cache is ending.
	}
	for _, app := range apps.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&app)})
	}
	return requests
}

type reconciler struct {
	kube
	reconcile reconcile
}

// Reconcile implements reconcile.Reconciler.
func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	app := &App{}
	if err := r.Get(ctx, request.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.reconcile(ctx, r.kube, app)
}
