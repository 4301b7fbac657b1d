// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controllerruntime is the controller of Foos written with controller-runtime, in the style of its documentation. It
// creates and corrects Deployments and reports conditions and events; docs/reference/controller-runtime.md says what it leaves out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func main() {
	workers := flag.Int("workers", 2, "`number` of Foos to reconcile concurrently")
	klog.InitFlags(nil)
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig() // Uses -kubeconfig, which the package registers.
	if err == nil {
		config.QPS = -1 // No client-side limit.
		err = run(ctrl.SetupSignalHandler(), config, *workers, ctrl.Options{})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run runs the controller until ctx is done.
func run(ctx context.Context, config *rest.Config, workers int, options ctrl.Options) error {
	options.Scheme, options.Metrics.BindAddress = runtime.NewScheme(), "0"
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, samplev1alpha1.Install} {
		if err := add(options.Scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&samplev1alpha1.Foo{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&fooReconciler{
			Client:   manager.GetClient(),
			scheme:   options.Scheme,
			recorder: manager.GetEventRecorder("controllerruntime"),
		})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
