// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestFirstSignalDrains(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			namespace := newNamespace(t)
			controller, creates := startWithHeldCreates(t, namespace)
			createFoo(t, namespace, "draining", "draining", 1)

			request := <-creates
			controller.signal(signal)
			controller.waitForLog("Shutting down workers")
			select {
			case <-controller.exited:
				t.Fatal("the controller exited during a sync")
			default:
			}
			close(request)
			controller.waitForExit(0)
			if _, err := findDeployment(t, namespace, "draining"); err != nil {
				t.Errorf("the running sync was not finished: %v", err)
			}
			if got := getFoo(t, namespace, "draining").Status.ObservedGeneration; got != 1 {
				t.Errorf("observedGeneration = %d, want 1: the running sync was not finished", got)
			}
			log := controller.log.String()
			for _, text := range []string{
				"Setting up event handlers", "Starting Foo controller", "Waiting for informer caches to sync", "Starting workers",
				"Started workers", "Shutting down workers",
			} {
				_, after, found := strings.Cut(log, text)
				if !found {
					t.Fatalf("the log lacks %q, or not in the order that tutorials show:\n%s", text, controller.log)
				}
				log = after
			}
			if before, _, found := strings.Cut(log, "Finished syncing"); !found || strings.Contains(before, "Stopping reflector") {
				t.Errorf("the informers do not run until the running sync has finished:\n%s", log)
			}
		})
	}
}

func TestCancelledSync(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flag   string
		second bool // signal
		want   string
	}{
		"second signal":    {"-shutdown-timeout=10m", true, ""},
		"shutdown timeout": {"-shutdown-timeout=100ms", false, "were cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			controller, creates := startWithHeldCreates(t, namespace, test.flag)
			createFoo(t, namespace, "held", "held", 1)
			request := <-creates
			defer close(request)
			controller.signal(syscall.SIGTERM)
			if test.second {
				controller.waitForLog("Shutting down workers")
				controller.signal(syscall.SIGTERM)
			}
			controller.waitForExit(1)
			if last := controller.errorLine(); !strings.Contains(last, test.want) {
				t.Errorf("the last line is %q, want an error that contains %q", last, test.want)
			}
		})
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	_, creates := startWithHeldCreates(t, namespace, "-workers=3")
	createNewFoos(t, namespace)
	next := func(timeout time.Duration) (create chan struct{}) {
		select {
		case create = <-creates:
		case <-time.After(timeout):
		}
		return create
	}
	first := next(convergence)
	if first == nil || next(convergence) == nil || next(convergence) == nil || next(2*time.Second) != nil { // long enough for a fourth worker
		t.Fatal("more or less than 3 Foos are synced concurrently")
	}
	close(first)
	if next(convergence) == nil {
		t.Error("the fourth Foo is not synced although a worker is idle")
	}
}

func TestClientRateLimit(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-kube-api-qps=4", "-kube-api-burst=1")
	begin := time.Now()
	createNewFoos(t, namespace)
	waitForNewFoos(t, namespace)
	// Each Foo takes two requests or more: the clients of Deployments, Foos and events share the limit.
	if took, least := time.Since(begin), (2*newFoos-2)*time.Second/4; took < least {
		t.Errorf("%d Foos were reconciled in %s, faster than with 4 requests per second", newFoos, took)
	}
}

// Not parallel: it deletes the CRD.
func TestMissingCRD(t *testing.T) {
	deleteCRD(t)
	const command = "kubectl apply -f artifacts/examples/crd.yaml"
	kubeconfig := kubeconfigFor(t, user)
	failing := startProcess(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=3s")
	waiting := startProcess(t, "-kubeconfig", kubeconfig, "-health-probe-bind-address=127.0.0.1:0", "-v=2")
	failing.waitForExit(1)
	if last := failing.errorLine(); !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, command) {
		t.Errorf("the last line is %q, want an error that contains %q", last, command)
	}
	waiting.waitForLog(command)
	checkHealth := func(path string, want int) {
		eventually(t, convergence, func() error {
			got, body := get(waiting.address(), path)
			if got != want || got == http.StatusInternalServerError && !strings.Contains(body, "have not synced") {
				return fmt.Errorf("%s = %d %s, want %d", path, got, body, want)
			}
			return nil
		})
	}
	checkHealth("/livez", http.StatusOK)
	checkHealth("/readyz", http.StatusInternalServerError)
	kubectl(t, "apply", "-f", crdFile)
	waiting.waitForLog("Started workers")
	checkHealth("/readyz", http.StatusOK)
	waiting.stop()
}

// nobody is the name of a user without permissions.
const nobody = "nobody"

func TestMissingPermission(t *testing.T) {
	t.Parallel()
	kubeconfig, err := local.KubeconfigFor(nobody)
	requireNoError(t, err)
	p := startProcess(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=6s")
	p.waitForExit(1)
	for _, want := range []string{"permission denied", `cannot list resource "`, `User "nobody"`} {
		if last := p.errorLine(); !strings.Contains(last, want) {
			t.Errorf("the last line is %q, want it to contain %q", last, want)
		}
	}
}

func TestStartUpErrors(t *testing.T) {
	t.Parallel()
	invalid := filepath.Join(t.TempDir(), "kubeconfig")
	requireNoError(t, os.WriteFile(invalid, []byte("this is not a kubeconfig"), 0o600))
	plugin, err := clientcmd.LoadFromFile(local.Kubeconfig())
	requireNoError(t, err)
	for name := range plugin.AuthInfos {
		plugin.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "no-such-credential-plugin", InstallHint: "Install it\nfirst.",
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	}
	missingPlugin := filepath.Join(t.TempDir(), "plugin")
	requireNoError(t, clientcmd.WriteToFile(*plugin, missingPlugin))
	for name, test := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"no cluster configured": {nil, 1, "-kubeconfig"},
		"kubeconfig missing":    {[]string{"-kubeconfig=/does/not/exist"}, 1, "/does/not/exist"},
		"kubeconfig invalid":    {[]string{"-kubeconfig", invalid}, 1, "kubeconfig"},
		"address in use":        {[]string{"-kubeconfig", local.Kubeconfig(), "-metrics-bind-address", strings.TrimPrefix(local.URL(), "https://")}, 1, "-metrics-bind-address"},
		"address invalid":       {[]string{"-master=http://["}, 1, "check -kubeconfig and -master"},
		"wrong path":            {[]string{"-kubeconfig", local.Kubeconfig(), "-master", local.URL() + "/typo"}, 1, "check the path in -master"},
		"plugin missing":        {[]string{"-kubeconfig", missingPlugin}, 1, "executable no-such-credential-plugin not found"},
		"server unreachable":    {[]string{"-master=http://127.0.0.1:1"}, 1, "cannot be reached"},
		"unknown flag":          {[]string{"-frobnicate"}, 2, "-frobnicate"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, test.flags...)
			p.waitForExit(test.code)
			output := strings.TrimSpace(p.log.String())
			if !strings.HasPrefix(output, "Error: ") || strings.Contains(output, "\n") || !strings.Contains(output, test.want) {
				t.Errorf("got output %q, want a single error line with %q", output, test.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"-version": `^sample-controller .* go1\.`, "--help": `Usage: sample-controller \[flags\]`} {
		p := startProcess(t, flag)
		p.waitForExit(0)
		if !regexp.MustCompile(want).MatchString(p.log.String()) {
			t.Errorf("unexpected output of %s: %q", flag, p.log)
		}
	}
}

func TestJSONLogging(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-logging-format=json")
	createReadyFoo(t, namespace, "logged", "logged", 1)
	followed := 0
	for line := range strings.Lines(controller.log.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("the line is not JSON: %s", line)
		}
		if strings.Contains(line, `"foo":`) {
			followed++
			if !strings.Contains(line, `"foo":{"name":"logged","namespace":"`+namespace+`"}`) {
				t.Errorf("the line has the name of the Foo in another form: %s", line)
			}
		}
	}
	if followed == 0 {
		t.Error("no line has the name of the Foo")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	address := startController(t, namespace, "-metrics-bind-address=127.0.0.1:0", "-leader-elect",
		"-leader-elect-resource-namespace", namespace).address()
	createReadyFoo(t, namespace, "measured", "measured", 1)
	_, metrics := get(address, "/metrics")
	for _, want := range []string{
		`workqueue_adds_total{name="foos"}`, `workqueue_depth{name="foos"`, `workqueue_retries_total{name="foos"}`,
		`workqueue_depth_by_priority{name="foos",priority="high"}`, `workqueue_depth_by_priority{name="foos",priority="low"}`,
		`rest_client_requests_total{code="201"`, "rest_client_request_duration_seconds_bucket", `leader_election_master_status{name="sample-controller-`,
		`informer_queued_items{group="samplecontroller.k8s.io",name="foos"`, `informer_store_resource_version{group="apps",name="deployments"`,
		`informer_processing_latency_seconds_bucket{group="samplecontroller.k8s.io",name="foos"`,
		"go_goroutines", "process_resident_memory_bytes", `sample_controller_syncs_total{result="success"} [1-9]`, `sample_controller_syncs_total{result="stalled"} 0`,
		"sample_controller_sync_duration_seconds_count [1-9]", "sample_controller_sync_panics_total 0", "sample_controller_active_workers [0-2]\n",
	} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if status, _ := get(address, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("/debug/pprof/ got %d, want 404: profiling is not enabled", status)
	}
}
