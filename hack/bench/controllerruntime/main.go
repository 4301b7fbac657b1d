// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controllerruntime is the controller of Foos written with controller-runtime, in the style of its documentation. It
// creates and corrects Deployments and reports conditions and events; docs/reference/controller-runtime.md says what it leaves out.
package main

import (
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func main() {
	workers := flag.Int("workers", 2, "`number` of Foos to reconcile concurrently")
	klog.InitFlags(nil)
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(*workers); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func run(workers int) error {
	config, err := ctrl.GetConfig() // Uses -kubeconfig, which the package registers.
	if err != nil {
		return err
	}
	config.QPS = -1 // No client-side limit.
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
	err = ctrl.NewControllerManagedBy(manager).
		For(&samplev1alpha1.Foo{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&fooReconciler{
			Client:   manager.GetClient(),
			scheme:   scheme,
			recorder: manager.GetEventRecorder("controllerruntime"),
		})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
