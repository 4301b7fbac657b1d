// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command sample-controller keeps one nginx Deployment for each Foo. It shows how a Kubernetes controller works.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/pkg/clustererrors"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	"k8s.io/sample-controller/pkg/signals"
)

// preflightTimeout is how long the API server may take to answer the first request.
const preflightTimeout = 10 * time.Second

func main() {
	var o options
	if err := parseFlags(&o, os.Args[1:], os.Stdout); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v; -h explains all flags\n", err)
		os.Exit(2)
	}
	if o.version {
		fmt.Println(version())
		return
	}
	err := run(signals.SetupSignalHandler(), o)
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// run connects to the cluster and runs the controller until ctx ends and its work is done.
func run(ctx context.Context, o options) error {
	config, err := clientConfig(o)
	if err != nil {
		return err
	}
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("the cluster configuration cannot be used: %w", err)
	}
	sampleClient, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("the cluster configuration cannot be used: %w", err)
	}
	if err := checkConnection(ctx, kubeClient); err != nil || ctx.Err() != nil {
		return err
	}

	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, o.resyncPeriod,
		kubeinformers.WithNamespace(o.namespace))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, o.resyncPeriod,
		informers.WithNamespace(o.namespace))
	deployments := kubeInformerFactory.Apps().V1().Deployments()
	foos := sampleInformerFactory.Samplecontroller().V1alpha1().Foos()

	watchErrors := clustererrors.NewReporter()
	for _, informer := range []cache.SharedIndexInformer{deployments.Informer(), foos.Informer()} {
		if err := informer.SetWatchErrorHandlerWithContext(watchErrors.HandleWatchError); err != nil {
			return err
		}
	}
	controller := NewController(ctx, kubeClient, sampleClient, deployments, foos,
		WithImage(o.image), WithCacheSyncTimeout(o.cacheSyncTimeout), WithShutdownTimeout(o.shutdownTimeout))

	informersCtx, stopInformers := context.WithCancel(ctx)
	defer sampleInformerFactory.Shutdown()
	defer kubeInformerFactory.Shutdown()
	defer stopInformers()
	kubeInformerFactory.StartWithContext(informersCtx)
	sampleInformerFactory.StartWithContext(informersCtx)

	err = controller.Run(ctx, o.workers)
	if errors.Is(err, ErrCachesNotSynced) && watchErrors.Newest() != nil {
		return fmt.Errorf("%w (-cache-sync-timeout=%s): %w", err, o.cacheSyncTimeout, watchErrors.Newest())
	}
	return err
}

// clientConfig returns how to reach the cluster: the kubeconfig if there is one, with -master as its server, and otherwise
// what a Pod is given.
func clientConfig(o options) (*rest.Config, error) {
	config, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS = -1 // No limit on this side.
	if o.kubeAPIQPS > 0 {
		config.QPS, config.Burst = float32(o.kubeAPIQPS), o.kubeAPIBurst
		if config.Burst == 0 {
			config.Burst = int(math.Ceil(o.kubeAPIQPS))
		}
	}
	return config, nil
}

func loadConfig(o options) (*rest.Config, error) {
	if o.kubeconfig == "" && o.master == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no cluster is configured; set -kubeconfig=$HOME/.kube/config or KUBECONFIG, or run this in a Pod")
		} else if err != nil {
			return nil, fmt.Errorf("the Pod's service account cannot be used; check automountServiceAccountToken: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(o.kubeconfig)}
	if len(rules.Precedence) == 1 {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.kubeconfig} // Which must exist.
	}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: o.master}}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %q cannot be used; check -kubeconfig and KUBECONFIG: %w", o.kubeconfig, err)
	}
	return config, nil
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

// options are the values of the flags.
type options struct {
	kubeconfig       string
	master           string
	namespace        string
	kubeAPIQPS       float64
	kubeAPIBurst     int
	workers          int
	resyncPeriod     time.Duration
	image            string
	cacheSyncTimeout time.Duration
	shutdownTimeout  time.Duration
	version          bool
}

// flagGroup is the flags of one topic.
type flagGroup struct {
	topic string
	*flag.FlagSet
}

// flagGroups returns the flags by topic, in the order in which -h shows them. They set o, and klog's global state.
func flagGroups(o *options) []flagGroup {
	group := func(topic string) flagGroup { return flagGroup{topic, flag.NewFlagSet(topic, flag.ContinueOnError)} }

	cluster := group("Cluster")
	cluster.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv(clientcmd.RecommendedConfigPathEnvVar),
		"`path` of a kubeconfig; only needed out of cluster; the default is $KUBECONFIG")
	cluster.StringVar(&o.master, "master", "", "`address` of the API server; overrides the one in the kubeconfig")
	cluster.StringVar(&o.namespace, "namespace", "", "watch only this `namespace`; the default is all")
	cluster.Float64Var(&o.kubeAPIQPS, "kube-api-qps", 0,
		"most requests to the API server in a second; 0 leaves it to the server's priority and fairness")
	cluster.IntVar(&o.kubeAPIBurst, "kube-api-burst", 0,
		"most requests at once beyond -kube-api-qps; 0 is as many as -kube-api-qps lets through in a second")

	sync := group("Sync")
	sync.IntVar(&o.workers, "workers", 2, "how many Foos are synced at the same time")
	sync.DurationVar(&o.resyncPeriod, "resync-period", 30*time.Second, "how often every cached Foo is looked at again; 0 is never")
	sync.StringVar(&o.image, "image", DefaultImage, "`image` of the nginx container of all Foos")

	process := group("Process")
	process.DurationVar(&o.cacheSyncTimeout, "cache-sync-timeout", 2*time.Minute,
		"give up if the caches have not synced by then")
	process.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 30*time.Second,
		"how long running syncs may take after SIGTERM or SIGINT; a second signal ends the process at once")
	process.BoolVar(&o.version, "version", false, "print the version and exit")

	logging := group("Logging")
	klog.InitFlags(logging.FlagSet)
	return []flagGroup{cluster, sync, process, logging}
}

// parseFlags sets o from the command line. If that asks for help, it is written to out and the error is flag.ErrHelp.
// Any other error is about a flag's name or value.
func parseFlags(o *options, args []string, out io.Writer) error {
	groups := flagGroups(o)
	all := flag.NewFlagSet("sample-controller", flag.ContinueOnError)
	all.SetOutput(io.Discard) // main prints errors.
	for _, group := range groups {
		group.VisitAll(func(f *flag.Flag) { all.Var(f.Value, f.Name, f.Usage) })
	}
	if err := all.Parse(args); errors.Is(err, flag.ErrHelp) {
		printUsage(groups, out)
		return err
	} else if err != nil {
		return err
	}
	if all.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", all.Arg(0))
	}
	return o.validate()
}

func printUsage(groups []flagGroup, out io.Writer) {
	fmt.Fprintln(out, "Usage: sample-controller [flags]\n\nKeeps one nginx Deployment for each Foo.")
	for _, group := range groups {
		fmt.Fprintf(out, "\n%s:\n", group.topic)
		group.SetOutput(out)
		group.PrintDefaults()
	}
}

// validate returns an error that names the first flag with an impossible value.
func (o *options) validate() error {
	switch {
	case o.workers < 1:
		return fmt.Errorf("-workers must be at least 1, not %d", o.workers)
	case o.resyncPeriod < 0:
		return fmt.Errorf("-resync-period must not be negative, but is %s", o.resyncPeriod)
	case o.image == "" || strings.ContainsAny(o.image, " \t\r\n"):
		return fmt.Errorf("-image must be the name of an image, not %q", o.image)
	case o.namespace != "" && len(validation.IsDNS1123Label(o.namespace)) > 0:
		return fmt.Errorf("-namespace must be the name of a namespace, not %q", o.namespace)
	case !(o.kubeAPIQPS >= 0 && o.kubeAPIQPS <= math.MaxInt32):
		return fmt.Errorf("-kube-api-qps must not be negative or infinite, but is %v", o.kubeAPIQPS)
	case o.kubeAPIBurst < 0:
		return fmt.Errorf("-kube-api-burst must not be negative, but is %d", o.kubeAPIBurst)
	case o.kubeAPIBurst > 0 && o.kubeAPIQPS == 0:
		return errors.New("-kube-api-burst has no meaning without -kube-api-qps; set both")
	case o.cacheSyncTimeout <= 0:
		return fmt.Errorf("-cache-sync-timeout must be more than 0, but is %s", o.cacheSyncTimeout)
	case o.shutdownTimeout <= 0:
		return fmt.Errorf("-shutdown-timeout must be more than 0, but is %s", o.shutdownTimeout)
	}
	return nil
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
