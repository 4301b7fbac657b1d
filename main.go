// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command sample-controller keeps one nginx Deployment for each Foo. It shows how a Kubernetes controller works.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/clusterconfig"
	"k8s.io/sample-controller/pkg/clustererrors"
	"k8s.io/sample-controller/pkg/election"
	"k8s.io/sample-controller/pkg/endpoints"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	informersv1alpha1 "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/options"
	"k8s.io/sample-controller/pkg/signals"
)

// preflightTimeout is how long the API server may take to answer the first request.
const preflightTimeout = 10 * time.Second

// gcPercent is by how much the heap grows until it is collected. Most of it are caches, which stay, so Go's default of 100
// would double the memory. The environment variable GOGC overrides it.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
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
	if !o.Profiling {
		runtime.MemProfileRate = 0 // A profile that nobody can ask for takes memory, too.
	}
	err = run(signals.SetupSignalHandler(), o)
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run connects to the cluster and runs the controller until ctx ends and its work is done.
func run(ctx context.Context, o *options.Options) error {
	if err := o.SetUpLogging(); err != nil {
		return err
	}
	config, namespace, err := clusterconfig.Load(o.Kubeconfig, o.Master)
	if err != nil {
		return err
	}
	var elector *election.Elector
	if o.LeaderElect {
		if o.Election.Namespace == "" {
			o.Election.Namespace = namespace
		}
		if elector, err = election.New(config, o.Election); err != nil {
			return err
		}
		config.Wrap(elector.Guard)
	}
	config.QPS, config.Burst = o.RequestLimit()
	kubeClient, err := kubernetes.NewForConfig(clusterconfig.WithProtobuf(config))
	if err != nil {
		return fmt.Errorf("the cluster configuration cannot be used: %w", err)
	}
	sampleClient, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("the cluster configuration cannot be used: %w", err)
	}

	kubeInformerFactory, sampleInformerFactory := newInformerFactories(kubeClient, sampleClient, o.ResyncPeriod, o.Namespace)
	deployments := kubeInformerFactory.Apps().V1().Deployments()
	foos := sampleInformerFactory.Samplecontroller().V1alpha1().Foos()

	closeEndpoints, err := serveEndpoints(ctx, o, elector, deployments.Informer().HasSynced, foos.Informer().HasSynced)
	defer closeEndpoints()
	if err != nil {
		return err
	}
	if err := checkConnection(ctx, kubeClient); err != nil || ctx.Err() != nil {
		return err
	}

	watchErrors := clustererrors.NewReporter()
	for _, informer := range []cache.SharedIndexInformer{deployments.Informer(), foos.Informer()} {
		if err := informer.SetWatchErrorHandlerWithContext(watchErrors.HandleWatchError); err != nil {
			return err
		}
	}
	controller := NewController(ctx, kubeClient, sampleClient, deployments, foos, func(c *Controller) {
		c.image, c.cacheSyncTimeout, c.shutdownTimeout = o.Image, o.CacheSyncTimeout, o.ShutdownTimeout
		if elector != nil {
			c.elect = elector.Run
		}
	})

	informersCtx, stopInformers := context.WithCancel(ctx)
	defer sampleInformerFactory.Shutdown()
	defer kubeInformerFactory.Shutdown()
	defer stopInformers()
	kubeInformerFactory.StartWithContext(informersCtx)
	sampleInformerFactory.StartWithContext(informersCtx)

	err = controller.Run(ctx, o.Workers)
	if errors.Is(err, ErrCachesNotSynced) && watchErrors.Newest() != nil {
		return fmt.Errorf("%w (-cache-sync-timeout=%s): %w", err, o.CacheSyncTimeout, watchErrors.Newest())
	}
	return err
}

// newInformerFactories returns the factories of the two informers, of one namespace or, if that is "", of all. Nothing asks for
// all objects of a namespace, so their caches have no index of that, as they would by default: it takes 80 bytes an object.
func newInformerFactories(
	kubeClient kubernetes.Interface, sampleClient clientset.Interface, resyncPeriod time.Duration, namespace string,
) (kubeinformers.SharedInformerFactory, informers.SharedInformerFactory) {
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, resyncPeriod, kubeinformers.WithNamespace(namespace))
	kubeInformerFactory.InformerFor(&appsv1.Deployment{}, func(client kubernetes.Interface, resyncPeriod time.Duration) cache.SharedIndexInformer {
		return appsinformers.NewDeploymentInformer(client, namespace, resyncPeriod, cache.Indexers{})
	})
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, resyncPeriod, informers.WithNamespace(namespace))
	sampleInformerFactory.InformerFor(&samplev1alpha1.Foo{}, func(client clientset.Interface, resyncPeriod time.Duration) cache.SharedIndexInformer {
		return informersv1alpha1.NewFooInformer(client, namespace, resyncPeriod, cache.Indexers{})
	})
	return kubeInformerFactory, sampleInformerFactory
}

// serveEndpoints serves those endpoints that have an address, until the function that it returns is called.
func serveEndpoints(ctx context.Context, o *options.Options, elector *election.Elector, synced ...cache.InformerSynced) (closeAll func(), err error) {
	var live []endpoints.Check
	if elector != nil {
		live = append(live, endpoints.Check{Name: "leader-election", Check: elector.Check})
	}
	ready := []endpoints.Check{{Name: "informer-sync", Check: func(*http.Request) error {
		for _, hasSynced := range synced {
			if !hasSynced() {
				return errors.New("the caches have not synced yet")
			}
		}
		return nil
	}}}

	var servers []*endpoints.Server
	closeAll = func() {
		for _, server := range servers {
			server.Close()
		}
	}
	for _, endpoint := range []struct {
		flag, address string
		handler       http.Handler
	}{
		{"-health-probe-bind-address", o.HealthProbeBindAddress, endpoints.Health(live, ready)},
		{"-metrics-bind-address", o.MetricsBindAddress, endpoints.Metrics(o.Profiling)},
	} {
		if endpoint.address == "" {
			continue
		}
		server, err := endpoints.Serve(ctx, endpoint.address, endpoint.handler)
		if err != nil {
			return closeAll, fmt.Errorf("%s=%s cannot be served, choose another address: %w", endpoint.flag, endpoint.address, err)
		}
		servers = append(servers, server)
	}
	return closeAll, nil
}

// checkConnection makes one request, so that a wrong address or wrong credentials end the program at once. An answer of
// the API server that it is not well is not its business: the informers retry.
func checkConnection(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if err == nil || errors.Is(err, context.Canceled) || (apierrors.ReasonForError(err) != "" && !apierrors.IsUnauthorized(err)) {
		return nil
	}
	return clustererrors.Explain(err)
}

// version returns the module version, the commit and the Go version that the program was built from, as far as the build
// recorded them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "sample-controller of an unknown version"
	}
	commit := "unknown"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return fmt.Sprintf("sample-controller %s, commit %s, %s", info.Main.Version, commit, info.GoVersion)
}
