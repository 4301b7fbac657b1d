// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package options defines and validates the command-line flags.
package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/util/flowcontrol"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/pkg/election"
	"k8s.io/sample-controller/pkg/kubeconfig"
)

// The defaults of flags that a Controller has as well.
const (
	DefaultImage           = "nginx:latest"
	DefaultShutdownTimeout = 30 * time.Second
)

// Options are the values of the flags.
type Options struct {
	Kubeconfig, Master, Namespace                   string
	KubeAPIQPS                                      float64
	KubeAPIBurst, Workers                           int
	ResyncPeriod, CacheSyncTimeout, ShutdownTimeout time.Duration
	Image                                           string
	Version, LeaderElect                            bool
	Election                                        election.Options
	HealthProbeBindAddress, MetricsBindAddress      string
	LoggingFormat                                   string
	logging                                         *flag.FlagSet
}

// flagGroups returns the flags by topic, in the order in which -h prints them.
func flagGroups(o *Options) []*flag.FlagSet {
	cluster := flag.NewFlagSet("Cluster", flag.ContinueOnError)
	cluster.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"`path` to a kubeconfig; only required out of cluster; defaults to $KUBECONFIG")
	cluster.StringVar(&o.Master, "master", "", "`address` of the API server; overrides the kubeconfig's")
	cluster.StringVar(&o.Namespace, "namespace", "", "`namespace` to watch; defaults to all namespaces")
	cluster.Float64Var(&o.KubeAPIQPS, "kube-api-qps", 0, "maximum requests per second; 0 means no limit")
	cluster.IntVar(&o.KubeAPIBurst, "kube-api-burst", 0, "maximum burst; 0 means the requests of one second")

	sync := flag.NewFlagSet("Sync", flag.ContinueOnError)
	sync.IntVar(&o.Workers, "workers", 2, "number of Foos that are synced concurrently")
	sync.DurationVar(&o.ResyncPeriod, "resync-period", 30*time.Second,
		"period after which all cached Foos are synced again; 0 disables resyncs")
	sync.StringVar(&o.Image, "image", DefaultImage, "`image` of the nginx container of each Foo")

	process := flag.NewFlagSet("Process", flag.ContinueOnError)
	process.DurationVar(&o.CacheSyncTimeout, "cache-sync-timeout", 2*time.Minute,
		"time to wait for the informer caches to sync before the process exits with an error")
	process.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", DefaultShutdownTimeout,
		"time that running syncs have to finish after SIGTERM or SIGINT; a second signal ends the process at once")
	process.BoolVar(&o.Version, "version", false, "print the version and exit")

	leader := flag.NewFlagSet("Leader election", flag.ContinueOnError)
	lease := &o.Election
	leader.BoolVar(&o.LeaderElect, "leader-elect", false, "run the workers only while holding the Lease")
	leader.DurationVar(&lease.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"time that standbys wait after the last observed renewal before they acquire the Lease")
	leader.DurationVar(&lease.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"time that the leader retries to renew the Lease before it stops leading and exits")
	leader.DurationVar(&lease.RetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"time between two renewals of the Lease; standbys try to acquire it after one to 2.2 times as long")
	leader.StringVar(&lease.Name, "leader-elect-resource-name", "",
		"`name` of the Lease; defaults to sample-controller, and with -namespace to sample-controller-NAMESPACE")
	leader.StringVar(&lease.Namespace, "leader-elect-resource-namespace", "",
		"`namespace` of the Lease; defaults to that of the kubeconfig or, without one, of the Pod")

	serving := flag.NewFlagSet("Serving", flag.ContinueOnError)
	serving.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", "",
		"`address`, such as :8081, to serve /livez, /readyz and /healthz at; not served by default")
	serving.StringVar(&o.MetricsBindAddress, "metrics-bind-address", "",
		"`address`, such as :8080, to serve /metrics at; not served by default")

	o.logging = flag.NewFlagSet("Logging", flag.ContinueOnError)
	o.logging.StringVar(&o.LoggingFormat, "logging-format", "text", "`format` of the log: text or json")
	klog.InitFlags(o.logging)
	return []*flag.FlagSet{cluster, sync, process, leader, serving, o.logging}
}

// Parse parses and validates the command line. For -h it writes the usage to out and returns flag.ErrHelp.
// Any other error is about one flag. The flags of klog set its global state.
func Parse(args []string, out io.Writer) (*Options, error) {
	o := &Options{}
	groups := flagGroups(o)
	all := flag.NewFlagSet("sample-controller", flag.ContinueOnError)
	all.SetOutput(io.Discard) // main prints errors.
	for _, group := range groups {
		group.VisitAll(func(f *flag.Flag) { all.Var(f.Value, f.Name, f.Usage) })
	}
	switch err := all.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		printUsage(groups, out)
		return nil, err
	case err != nil:
		return nil, err
	case all.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", all.Arg(0))
	}
	return o, o.validate(all)
}

func printUsage(groups []*flag.FlagSet, out io.Writer) {
	fmt.Fprintln(out, "Usage: sample-controller [flags]\n\n"+
		"Runs the controller of Foos, which manages one nginx Deployment for each Foo.")
	for _, group := range groups {
		fmt.Fprintf(out, "\n%s:\n", group.Name())
		group.SetOutput(out)
		group.PrintDefaults()
	}
}

// validate returns an error that names the first of the flags with an impossible value.
func (o *Options) validate(flags *flag.FlagSet) error {
	lease := &o.Election
	// Instances that watch different namespaces do not stand by for each other.
	lease.Name = cmp.Or(lease.Name, strings.TrimSuffix("sample-controller-"+o.Namespace, "-"))
	lease.ForbiddenTimeout = o.CacheSyncTimeout
	duration, deadline, period := lease.LeaseDuration, lease.RenewDeadline, lease.RetryPeriod
	minDeadline := time.Duration(leaderelection.JitterFactor * float64(period))
	for _, check := range []struct {
		valid             bool
		name, requirement string
	}{
		{o.Workers >= 1, "workers", "at least 1"},
		{o.ResyncPeriod >= 0, "resync-period", "0 or more"},
		{o.Image != "" && !strings.ContainsAny(o.Image, " \t\r\n"), "image", "the name of an image"},
		{isNamespace(o.Namespace), "namespace", "the name of a namespace"},
		{o.KubeAPIQPS >= 0 && o.KubeAPIQPS <= math.MaxInt32, "kube-api-qps", "from 0 to 2147483647"},
		{o.KubeAPIBurst >= 0, "kube-api-burst", "0 or more"},
		{o.KubeAPIBurst == 0 || o.KubeAPIQPS > 0, "kube-api-burst", "0 unless -kube-api-qps is set"},
		{o.CacheSyncTimeout > 0, "cache-sync-timeout", "more than 0"},
		{o.ShutdownTimeout > 0, "shutdown-timeout", "more than 0"},
		{isAddress(o.HealthProbeBindAddress), "health-probe-bind-address", "HOST:PORT or :PORT"},
		{isAddress(o.MetricsBindAddress), "metrics-bind-address", "HOST:PORT or :PORT"},
		{o.LoggingFormat == "text" || o.LoggingFormat == "json", "logging-format", "text or json"},
		{o.LoggingFormat == "text" || flags.Lookup("vmodule").Value.String() == "", "vmodule", "empty with -logging-format=json"},
		{len(validation.IsDNS1123Subdomain(lease.Name)) == 0, "leader-elect-resource-name", "the name of a Lease"},
		{isNamespace(lease.Namespace), "leader-elect-resource-namespace", "the name of a namespace"},
		{duration > 0 && duration%time.Second == 0 && duration <= math.MaxInt32*time.Second, // A Lease has no more.
			"leader-elect-lease-duration", "whole seconds, from 1s to 596523h"},
		{deadline < duration, "leader-elect-renew-deadline", "less than -leader-elect-lease-duration"},
		{period > 0 && minDeadline < deadline, "leader-elect-retry-period",
			"more than 0 and less than -leader-elect-renew-deadline divided by 1.2"},
	} {
		if !check.valid {
			return fmt.Errorf("-%s must be %s, not %q", check.name, check.requirement, flags.Lookup(check.name).Value)
		}
	}
	return nil
}

// isNamespace reports whether a name is empty or a possible name of a namespace.
func isNamespace(name string) bool { return name == "" || len(validation.IsDNS1123Label(name)) == 0 }

// isAddress reports whether an address is empty or of the form HOST:PORT.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(cmp.Or(address, ":0"))
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// SetUpLogging switches klog to JSON if -logging-format says so.
func (o *Options) SetUpLogging() error {
	if o.LoggingFormat != logsapi.JSONLogFormat {
		return nil
	}
	config := logsapi.NewLoggingConfiguration()
	config.Format = o.LoggingFormat
	config.Verbosity = logsapi.VerbosityLevel(o.logging.Lookup("v").Value.(flag.Getter).Get().(klog.Level))
	return logsapi.ValidateAndApply(config, nil)
}

// ClientConfig returns the client configuration that kubeconfig.Load finds, with the rate limit that clients share, and the default
// namespace.
func (o *Options) ClientConfig() (config *rest.Config, namespace string, err error) {
	config, namespace, err = kubeconfig.Load(o.Kubeconfig, o.Master)
	if err == nil && o.KubeAPIQPS > 0 {
		burst := cmp.Or(o.KubeAPIBurst, int(math.Ceil(o.KubeAPIQPS)))
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.KubeAPIQPS), burst)
	}
	return config, namespace, err
}
