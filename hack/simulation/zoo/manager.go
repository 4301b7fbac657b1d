// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"k8s.io/sample-controller/hack/simulation/walks"
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

// reconcile reconciles an App, as the cache has it.
type reconcile func(ctx context.Context, k kube, app *App) error

// managed returns a program that runs a reconciler in a controller-runtime Manager. It is called when an App changes, or a child that an
// App controls.
func managed(r reconcile, children ...client.Object) walks.Program {
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
		builder := ctrl.NewControllerManagedBy(manager).For(&App{})
		for _, child := range children {
			builder.Owns(child)
		}
		k := kube{manager.GetClient(), manager.GetAPIReader()}
		if err := builder.Complete(reconciler{k, r}); err != nil {
			return err
		}
		return manager.Start(ctx)
	}
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
