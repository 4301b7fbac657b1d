// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command sample-controller runs the controller of Foos: it creates one nginx Deployment for each Foo and
// keeps it in its desired state.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	"k8s.io/sample-controller/pkg/election"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	"k8s.io/sample-controller/pkg/kubeconfig"
	"k8s.io/sample-controller/pkg/options"
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/server"
	"k8s.io/sample-controller/pkg/signals"
)

func main() {
	o, err := options.Parse(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v; -h explains all flags\n", err)
		os.Exit(2)
	}
	if o.Version {
		fmt.Println(version())
		return
	}
	err = start(signals.SetupSignalHandler(), o)
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", strings.Join(strings.Fields(err.Error()), " ")) // One line.
		os.Exit(1)
	}
}

// start runs the controller with the configuration that the flags name.
func start(ctx context.Context, o *options.Options) error {
	if err := o.SetUpLogging(); err != nil {
		return err
	}
	config, namespace, err := o.ClientConfig()
	if err != nil {
		return err
	}
	o.Election.Namespace = cmp.Or(o.Election.Namespace, namespace)
	return run(ctx, config, o)
}

// run runs the controller in the cluster of config until ctx is done and the workers have finished.
func run(ctx context.Context, config *rest.Config, o *options.Options) error {
	config = rest.CopyConfig(config)
	config.Wrap(kubeconfig.WithoutRetryAfter) // Each kind of request is retried with its own delays.
	var elector *election.Elector
	if o.LeaderElect {
		var err error
		if elector, err = election.New(config, o.Election); err != nil {
			return err
		}
		config.Wrap(elector.Guard) // The clients can write only while this instance leads.
	}
	kubeClient, err := kubernetes.NewForConfig(config)
	sampleClient, sampleErr := clientset.NewForConfig(config)
	if err := cmp.Or(err, sampleErr); err != nil {
		return fmt.Errorf("the clients cannot be built; check -kubeconfig and -master: %w", err)
	}
	// Only named informers have metrics. A second instance in a process has no name, and no metrics.
	deploymentsName, _ := cache.NewInformerName("deployments")
	foosName, _ := cache.NewInformerName("foos")
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(
		kubeClient, o.ResyncPeriod, kubeinformers.WithNamespace(o.Namespace),
		kubeinformers.WithTweakListOptions(consistency.ListNewest),
		kubeinformers.WithTransform(trim), kubeinformers.WithInformerName(deploymentsName))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(
		sampleClient, o.ResyncPeriod, informers.WithNamespace(o.Namespace),
		informers.WithTweakListOptions(consistency.ListNewest),
		informers.WithTransform(trim), informers.WithInformerName(foosName))
	deployments := kubeInformerFactory.Apps().V1().Deployments()
	foos := sampleInformerFactory.Samplecontroller().V1alpha1().Foos()
	lastWatchError := diagnostics.HandleWatchErrors(deployments.Informer(), foos.Informer())
	synced := []cache.DoneChecker{deployments.Informer().HasSyncedChecker(), foos.Informer().HasSyncedChecker()}
	if err := serve(ctx, o, elector, synced); err != nil {
		return err
	}
	err = diagnostics.CheckConnection(ctx, kubeClient.Discovery().RESTClient())
	if err != nil || ctx.Err() != nil {
		return err
	}
	// The informers outlive ctx: an event handler cannot be added to one that has stopped.
	informersCtx, stopInformers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopInformers() // It does not wait for them: a Reflector may be in a backoff of up to a minute.
	kubeInformerFactory.StartWithContext(informersCtx)
	sampleInformerFactory.StartWithContext(informersCtx)
	if err := diagnostics.WaitForCacheSync(ctx, o.CacheSyncTimeout, lastWatchError, synced); err != nil || ctx.Err() != nil {
		return err
	}

	// Only the leader has a controller: a standby fills its caches, but has no workqueue that could grow.
	lead := func(ctx context.Context) error {
		controller := NewController(ctx, kubeClient, sampleClient, deployments, foos)
		controller.image, controller.shutdownTimeout = o.Image, o.ShutdownTimeout
		return controller.Run(ctx, o.Workers)
	}
	if elector == nil {
		return lead(ctx)
	}
	return elector.Run(ctx, lead)
}

// serve serves health checks and metrics, each if it has an address.
func serve(ctx context.Context, o *options.Options, e *election.Elector, synced []cache.DoneChecker) error {
	live := func() error { return nil }
	if e != nil {
		live = e.Check
	}
	ready := func() error {
		if slices.ContainsFunc(synced, func(c cache.DoneChecker) bool { return !cache.IsDone(c) }) {
			return errors.New("the informer caches have not synced yet")
		}
		return nil
	}
	health := server.Health(live, ready)
	if err := server.Start(ctx, "-health-probe-bind-address", o.HealthProbeBindAddress, health); err != nil {
		return err
	}
	return server.Start(ctx, "-metrics-bind-address", o.MetricsBindAddress, server.Metrics())
}

// trim is the cache.TransformFunc of the informers. It drops what the controller does not read.
func trim(obj any) (any, error) {
	obj.(metav1.Object).SetManagedFields(nil)
	if deployment, ok := obj.(*appsv1.Deployment); ok && ownership.ControllerRef(deployment) == nil {
		deployment.Labels, deployment.Annotations = nil, nil
		deployment.Spec, deployment.Status = appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{}
	}
	return obj, nil
}

// version returns the module version, the commit and the Go version, as far as the build recorded them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "sample-controller (unknown version)"
	}
	commit := "unknown"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return fmt.Sprintf("sample-controller %s, commit %s, %s", info.Main.Version, commit, info.GoVersion)
}
