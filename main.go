// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command sample-controller runs the controller of Foos: it creates one nginx Deployment for each Foo and keeps it in its desired
// state.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"

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
	err = run(signals.SetupSignalHandler(), o)
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run connects to the cluster and runs the controller until ctx is done and the workers have finished.
func run(ctx context.Context, o *options.Options) error {
	if err := o.SetUpLogging(); err != nil {
		return err
	}
	config, namespace, err := kubeconfig.Load(o.Kubeconfig, o.Master)
	if err != nil {
		return err
	}
	var elector *election.Elector
	if o.LeaderElect {
		o.Election.Namespace = cmp.Or(o.Election.Namespace, namespace)
		o.Election.ForbiddenTimeout = o.CacheSyncTimeout
		if elector, err = election.New(config, o.Election); err != nil {
			return err
		}
		config.Wrap(elector.Guard)
	}
	config.RateLimiter = o.RateLimiter()
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the Kubernetes clientset: %w", err)
	}
	sampleClient, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the clientset of Foos: %w", err)
	}

	deploymentsName, err := cache.NewInformerName("deployments") // Only named informers have metrics.
	if err != nil {
		return err
	}
	defer deploymentsName.Release()
	foosName, err := cache.NewInformerName("foos")
	if err != nil {
		return err
	}
	defer foosName.Release()
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, o.ResyncPeriod,
		kubeinformers.WithNamespace(o.Namespace), kubeinformers.WithTransform(trim), kubeinformers.WithInformerName(deploymentsName))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, o.ResyncPeriod,
		informers.WithNamespace(o.Namespace), informers.WithTransform(trim), informers.WithInformerName(foosName))
	deployments := kubeInformerFactory.Apps().V1().Deployments()
	foos := sampleInformerFactory.Samplecontroller().V1alpha1().Foos()
	synced := []cache.InformerSynced{deployments.Informer().HasSynced, foos.Informer().HasSynced}

	live := func() error { return nil }
	if elector != nil {
		live = elector.Check
	}
	ready := func() error {
		if slices.ContainsFunc(synced, func(hasSynced cache.InformerSynced) bool { return !hasSynced() }) {
			return errors.New("the informer caches have not synced yet")
		}
		return nil
	}
	if err := server.Start(ctx, o.HealthProbeBindAddress, server.Health(live, ready)); err != nil {
		return fmt.Errorf("-health-probe-bind-address=%s: %w", o.HealthProbeBindAddress, err)
	}
	if err := server.Start(ctx, o.MetricsBindAddress, server.Metrics()); err != nil {
		return fmt.Errorf("-metrics-bind-address=%s: %w", o.MetricsBindAddress, err)
	}
	if err := kubeconfig.CheckConnection(ctx, kubeClient.Discovery().RESTClient()); err != nil || ctx.Err() != nil {
		return err
	}

	watchErrors := &kubeconfig.WatchErrors{}
	for _, informer := range []cache.SharedIndexInformer{deployments.Informer(), foos.Informer()} {
		if err := informer.SetWatchErrorHandlerWithContext(watchErrors.Handle); err != nil {
			return err
		}
	}
	// The informers outlive ctx: an event handler cannot be added to one that has stopped.
	informersCtx, stopInformers := context.WithCancel(context.WithoutCancel(ctx))
	defer sampleInformerFactory.Shutdown()
	defer kubeInformerFactory.Shutdown()
	defer stopInformers()
	kubeInformerFactory.StartWithContext(informersCtx)
	sampleInformerFactory.StartWithContext(informersCtx)
	if err := waitForCacheSync(ctx, o.CacheSyncTimeout, watchErrors, synced...); err != nil || ctx.Err() != nil {
		return err
	}

	// Only the leader has a controller: on a standby the caches are filled, but there is no workqueue that could grow.
	lead := func(ctx context.Context) error {
		controller := NewController(ctx, kubeClient, sampleClient, deployments, foos,
			Config{Image: o.Image, ShutdownTimeout: o.ShutdownTimeout})
		return controller.Run(ctx, o.Workers)
	}
	if elector == nil {
		return lead(ctx)
	}
	return elector.Run(ctx, lead)
}

// waitForCacheSync waits until the caches have synced or ctx is done. After the timeout it returns the last error of a watch.
func waitForCacheSync(
	ctx context.Context, timeout time.Duration, watchErrors *kubeconfig.WatchErrors, synced ...cache.InformerSynced,
) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if cache.WaitForCacheSync(timeoutCtx.Done(), synced...) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the informer caches have not synced within -cache-sync-timeout=%s: %w", timeout, watchErrors.Last())
}

// trim is the cache.TransformFunc of the informers. It drops what the controller does not read: managed fields, and the labels,
// annotations, spec and status of a Deployment that no Foo controls. Equal label maps of a Deployment are shared.
func trim(obj any) (any, error) {
	obj.(metav1.Object).SetManagedFields(nil)
	deployment, ok := obj.(*appsv1.Deployment)
	switch {
	case !ok:
	case ownership.ControllerRef(deployment) == nil:
		deployment.Labels, deployment.Annotations = nil, nil
		deployment.Spec, deployment.Status = appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{}
	default:
		if maps.Equal(deployment.Spec.Template.Labels, deployment.Labels) {
			deployment.Spec.Template.Labels = deployment.Labels
		}
		if selector := deployment.Spec.Selector; selector != nil && maps.Equal(selector.MatchLabels, deployment.Labels) {
			selector.MatchLabels = deployment.Labels
		}
	}
	return obj, nil
}

// version returns the module version, the commit and the Go version of the binary, as far as the build recorded them.
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
