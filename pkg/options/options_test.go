// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParse(t *testing.T) {
	o, err := Parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Kubeconfig != "" || o.Master != "" || o.Namespace != "" || o.Version || o.KubeAPIQPS != 0 || o.KubeAPIBurst != 0 || o.Workers != 2 || o.ResyncPeriod != 30*time.Second || o.Image != "nginx:latest" ||
		o.CacheSyncTimeout != 2*time.Minute || o.ShutdownTimeout != 30*time.Second || o.LeaderElect ||
		o.Election.LeaseDuration != 15*time.Second || o.Election.RenewDeadline != 10*time.Second || o.Election.RetryPeriod != 2*time.Second || o.Election.ForbiddenTimeout != o.CacheSyncTimeout ||
		o.Election.Name != "sample-controller" || o.MetricsBindAddress != "" || o.HealthProbeBindAddress != "" || o.LoggingFormat != "text" {
		t.Errorf("defaults = %+v", o)
	}
	o, err = Parse([]string{"--namespace=apps", "-workers", "16", "-leader-elect", "-v=2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Namespace != "apps" || o.Workers != 16 || !o.LeaderElect || o.Election.Name != "sample-controller-apps" {
		t.Errorf("options = %+v", o)
	}
	if o, err = Parse([]string{"-namespace=apps", "-leader-elect-resource-name=mine"}, io.Discard); err != nil || o.Election.Name != "mine" {
		t.Errorf("options = %+v (%v)", o, err)
	}
}

func TestRateLimiter(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	for args, want := range map[string]struct {
		qps   float32
		burst int
	}{
		"-kube-api-qps=2.5":                     {2.5, 3},
		"-kube-api-qps=20 -kube-api-burst=1000": {20, 1000},
		"-kube-api-qps=20 -kube-api-burst=5":    {20, 5},
	} {
		o, err := Parse(append(strings.Fields(args), "-master=http://127.0.0.1:8001"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) { // The clock of a bubble stands still, and no tokens are added.
			config, _, err := o.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			limiter, burst := config.RateLimiter, 0
			for limiter.TryAccept() {
				burst++
			}
			if limiter.QPS() != want.qps || burst != want.burst {
				t.Errorf("rate limiter with %q: %v per second, burst %d, want %v, %d", args, limiter.QPS(), burst, want.qps, want.burst)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var help strings.Builder
	if _, err := Parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("Parse(-h) = %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{
		"Cluster:", "-kubeconfig", "-master", "-namespace", "-kube-api-qps", "-kube-api-burst",
		"Sync:", "-workers", "-resync-period", "-image",
		"Process:", "-cache-sync-timeout", "-shutdown-timeout", "-version",
		"Leader election:", "-leader-elect", "-leader-elect-lease-duration", "-leader-elect-renew-deadline", "-leader-elect-retry-period",
		"-leader-elect-resource-name", "-leader-elect-resource-namespace",
		"Serving:", "-health-probe-bind-address", "-metrics-bind-address",
		"Logging:", "-logging-format", "-v ", "-vmodule",
	} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, test := range map[string]struct{ args, want string }{
		"unknown flag":                     {"-no-such-flag", "-no-such-flag"},
		"unexpected argument":              {"now", `"now"`},
		"no workers":                       {"-workers=0", "-workers"},
		"workers not a number":             {"-workers=many", "-workers"},
		"negative resync period":           {"-resync-period=-1s", "-resync-period"},
		"empty image":                      {"-image=", "-image"},
		"invalid namespace":                {"-namespace=No_Such", "-namespace"},
		"negative QPS":                     {"-kube-api-qps=-1", "-kube-api-qps"},
		"QPS not a number":                 {"-kube-api-qps=NaN", "-kube-api-qps"},
		"negative burst":                   {"-kube-api-qps=1 -kube-api-burst=-1", "-kube-api-burst"},
		"burst without QPS":                {"-kube-api-burst=10", "-kube-api-qps"},
		"no cache sync timeout":            {"-cache-sync-timeout=0", "-cache-sync-timeout"},
		"negative shutdown timeout":        {"-shutdown-timeout=-1s", "-shutdown-timeout"},
		"renew deadline longer than lease": {"-leader-elect-renew-deadline=20s", "-leader-elect-renew-deadline"},
		"retry period too long":            {"-leader-elect-retry-period=9s", "-leader-elect-retry-period"},
		"no retry period":                  {"-leader-elect-retry-period=0", "-leader-elect-retry-period"},
		"lease below a second":             {"-leader-elect-lease-duration=500ms", "-leader-elect-lease-duration"},
		"lease not whole seconds":          {"-leader-elect-lease-duration=15500ms", "-leader-elect-lease-duration"},
		"invalid lease name":               {"-leader-elect-resource-name=No_Such", "-leader-elect-resource-name"},
		"invalid lease namespace":          {"-leader-elect-resource-namespace=a/b", "-leader-elect-resource-namespace"},
		"address without colon":            {"-metrics-bind-address=8080", "-metrics-bind-address"},
		"port out of range":                {"-health-probe-bind-address=:99999", "-health-probe-bind-address"},
		"lease longer than the API has":    {"-leader-elect-lease-duration=2000000h", "-leader-elect-lease-duration"},
		"vmodule with JSON":                {"-logging-format=json -vmodule=main=4", "-vmodule"},
		"unknown logging format":           {"-logging-format=xml", "-logging-format"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.Fields(test.args), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse(%q) = %v, want an error with %q", test.args, err, test.want)
			}
		})
	}
}
