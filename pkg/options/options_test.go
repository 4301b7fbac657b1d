// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Setenv("KUBECONFIG", "from-the-environment")
	o, err := Parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Kubeconfig != "from-the-environment" || o.Workers != 2 || o.ResyncPeriod != 30*time.Second || o.Image != "nginx:latest" ||
		o.CacheSyncTimeout != 2*time.Minute || o.ShutdownTimeout != 30*time.Second || o.LeaderElect ||
		o.Election.LeaseDuration != 15*time.Second || o.Election.RenewDeadline != 10*time.Second || o.Election.RetryPeriod != 2*time.Second ||
		o.Election.Name != "sample-controller" || o.MetricsBindAddress != "" || o.HealthProbeBindAddress != "" || o.LoggingFormat != "text" {
		t.Errorf("the defaults are %+v", o)
	}
	o, err = Parse([]string{"--namespace=apps", "-workers", "16", "-leader-elect", "-v=2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Namespace != "apps" || o.Workers != 16 || !o.LeaderElect || o.Election.Name != "sample-controller-apps" {
		t.Errorf("the options are %+v", o)
	}
	if o, err = Parse([]string{"-namespace=apps", "-leader-elect-resource-name=mine"}, io.Discard); err != nil || o.Election.Name != "mine" {
		t.Errorf("the options are %+v (%v)", o, err)
	}
}

func TestRequestLimit(t *testing.T) {
	for args, want := range map[string]struct {
		qps   float32
		burst int
	}{
		"":                                      {-1, 0},
		"-kube-api-qps=2.5":                     {2.5, 3},
		"-kube-api-qps=20 -kube-api-burst=1000": {20, 1000},
		"-kube-api-qps=20 -kube-api-burst=5":    {20, 5},
	} {
		o, err := Parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if qps, burst := o.RequestLimit(); qps != want.qps || burst != want.burst {
			t.Errorf("%q is a limit of %v, %d, want %v, %d", args, qps, burst, want.qps, want.burst)
		}
	}
}

func TestHelpNamesEveryTopicAndFlag(t *testing.T) {
	var help strings.Builder
	if _, err := Parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("-h is answered with %v", err)
	}
	for _, want := range []string{
		"Cluster:", "-kubeconfig", "-master", "-namespace", "-kube-api-qps", "-kube-api-burst",
		"Sync:", "-workers", "-resync-period", "-image",
		"Process:", "-cache-sync-timeout", "-shutdown-timeout", "-version",
		"Leader election:", "-leader-elect", "-leader-elect-lease-duration", "-leader-elect-renew-deadline", "-leader-elect-retry-period",
		"-leader-elect-resource-name", "-leader-elect-resource-namespace",
		"Endpoints:", "-health-probe-bind-address", "-metrics-bind-address", "-profiling",
		"Logging:", "-logging-format", "-v ", "-vmodule",
	} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help does not show %q", want)
		}
	}
}

func TestImpossibleOptionsAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ args, want string }{
		"a flag is unknown":                        {"-frobnicate", "-frobnicate"},
		"an argument is unexpected":                {"now", `"now"`},
		"no workers":                               {"-workers=0", "-workers"},
		"workers that are no number":               {"-workers=many", "-workers"},
		"a negative resync period":                 {"-resync-period=-1s", "-resync-period"},
		"an image without a name":                  {"-image=", "-image"},
		"an impossible namespace":                  {"-namespace=No_Such", "-namespace"},
		"a negative request rate":                  {"-kube-api-qps=-1", "-kube-api-qps"},
		"a request rate that is no number":         {"-kube-api-qps=NaN", "-kube-api-qps"},
		"a negative burst":                         {"-kube-api-qps=1 -kube-api-burst=-1", "-kube-api-burst"},
		"a burst without a rate":                   {"-kube-api-burst=10", "-kube-api-qps"},
		"no time for the caches":                   {"-cache-sync-timeout=0", "-cache-sync-timeout"},
		"no time for the shutdown":                 {"-shutdown-timeout=-1s", "-shutdown-timeout"},
		"a renew deadline longer than the lease":   {"-leader-elect-renew-deadline=20s", "renew deadline"},
		"a retry period longer than the deadline":  {"-leader-elect-retry-period=10s", "retry period"},
		"a retry period of nothing":                {"-leader-elect-retry-period=0", "retry period"},
		"a lease of less than a second":            {"-leader-elect-lease-duration=500ms", "lease duration"},
		"a lease of a fraction of a second":        {"-leader-elect-lease-duration=15500ms", "lease duration"},
		"a lease with an impossible name":          {"-leader-elect-resource-name=No_Such", "-leader-elect-resource-name"},
		"a lease in an impossible namespace":       {"-leader-elect-resource-namespace=a/b", "-leader-elect-resource-namespace"},
		"profiles without an address to have them": {"-profiling", "-metrics-bind-address"},
		"an address without a port's colon":        {"-metrics-bind-address=8080", "-metrics-bind-address"},
		"an address with an impossible port":       {"-health-probe-bind-address=:99999", "-health-probe-bind-address"},
		"a format that nobody writes":              {"-logging-format=xml", "-logging-format"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.Fields(test.args), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse(%q) = %v, want an error with %q", test.args, err, test.want)
			}
		})
	}
}
