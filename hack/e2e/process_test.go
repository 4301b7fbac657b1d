// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
			controller.waitForExit(0, 20*time.Second)
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
			if _, after, _ := strings.Cut(log, "Finished syncing"); !strings.Contains(after, "Stopping reflector") {
				t.Errorf("the informers do not run until the running sync has finished:\n%s", log)
			}
		})
	}
}

func TestSecondSignalExits(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller, creates := startWithHeldCreates(t, namespace)
	createFoo(t, namespace, "held", "held", 1)
	request := <-creates
	defer close(request)
	controller.signal(syscall.SIGTERM)
	controller.waitForLog("Shutting down workers")
	controller.signal(syscall.SIGTERM)
	controller.waitForExit(1, 5*time.Second)
}

func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller, creates := startWithHeldCreates(t, namespace, "-shutdown-timeout=100ms")
	createFoo(t, namespace, "held", "held", 1)
	request := <-creates
	defer close(request)
	controller.signal(syscall.SIGTERM)
	controller.waitForExit(1, 10*time.Second)
	if last := controller.errorLine(); !strings.Contains(last, "were cancelled") {
		t.Errorf("the last line is %q, want an error that the sync was cancelled", last)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	_, creates := startWithHeldCreates(t, namespace, "-workers=3")
	for i := range 4 {
		name := fmt.Sprintf("foo-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	var create chan struct{}
	for i := range 3 {
		select {
		case create = <-creates:
		case <-time.After(convergence):
			t.Fatalf("%d Foos are synced concurrently, want 3", i)
		}
	}
	select {
	case <-creates:
		t.Fatal("4 Foos are synced concurrently, want 3")
	case <-time.After(watchLatency): // long enough for a fourth worker
	}
	close(create)
	select {
	case <-creates:
	case <-time.After(convergence):
		t.Error("the fourth Foo is not synced although a worker is idle")
	}
}

func TestClientRateLimit(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-kube-api-qps=2", "-kube-api-burst=1")
	const foos = 8
	for i := range foos {
		name := fmt.Sprintf("foo-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	eventually(t, 2*convergence, func() error {
		requests, err := local.Requests()
		if err != nil {
			return err
		}
		var times []time.Time // of all requests: the clients of Deployments, Foos and events share the limit
		statuses := 0
		for _, request := range requests {
			if request.User != user || request.Namespace != namespace {
				continue
			}
			times = append(times, request.Received)
			if request.Verb == "update" && request.Resource == "foos" {
				statuses++
			}
		}
		if statuses < foos {
			return fmt.Errorf("%d statuses have been updated, want %d", statuses, foos)
		}
		// At 2 requests per second, 16 take 7.5 s. The first one may be delayed by 3 s.
		slices.SortFunc(times, time.Time.Compare)
		took, least := times[len(times)-1].Sub(times[0]), time.Duration(len(times)-1)*time.Second/2-3*time.Second
		if took < least {
			t.Errorf("%d requests were made in %s, faster than 2 per second", len(times), took)
		}
		return nil
	})
}

func TestMissingCRD(t *testing.T) {
	deleteCRD(t)
	const command = "kubectl apply -f artifacts/examples/crd.yaml"
	kubeconfig := kubeconfigFor(t, user)
	failing := startProcess(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=3s")
	waiting := startProcess(t, "-kubeconfig", kubeconfig)
	failing.waitForExit(1, 20*time.Second)
	if last := failing.errorLine(); !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, command) {
		t.Errorf("the last line is %q, want an error that contains %q", last, command)
	}
	waiting.waitForLog(command)
	kubectl(t, "apply", "-f", crdFile)
	waiting.waitForLog("Started workers")
	waiting.stop(10 * time.Second)
}

// nobody is the name of a user without permissions.
const nobody = "nobody"

func TestMissingPermission(t *testing.T) {
	t.Parallel()
	kubeconfig, err := local.KubeconfigFor(nobody)
	requireNoError(t, err)
	p := startProcess(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=2s")
	p.waitForExit(1, 20*time.Second)
	for _, want := range []string{"permission denied", `cannot list resource "`, `User "nobody"`} {
		if last := p.errorLine(); !strings.Contains(last, want) {
			t.Errorf("the last line is %q, want it to contain %q", last, want)
		}
	}
}

func TestWithoutWatchList(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	command := local.Command(context.Background(), controllerBinary, "-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace)
	startCommand(t, command, "KUBE_FEATURE_WatchListClient=false").waitForLog("Started workers")
	createReadyFoo(t, namespace, "listed", "listed", 1)
}

func TestStartUpErrors(t *testing.T) {
	t.Parallel()
	invalid := filepath.Join(t.TempDir(), "kubeconfig")
	requireNoError(t, os.WriteFile(invalid, []byte("this is not a kubeconfig"), 0o600))
	for name, test := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"no cluster configured":   {nil, 1, "-kubeconfig"},
		"kubeconfig missing":      {[]string{"-kubeconfig=/does/not/exist"}, 1, "/does/not/exist"},
		"kubeconfig invalid":      {[]string{"-kubeconfig", invalid}, 1, "kubeconfig"},
		"address in use":          {[]string{"-kubeconfig", local.Kubeconfig(), "-metrics-bind-address", strings.TrimPrefix(local.URL(), "https://")}, 1, "-metrics-bind-address"},
		"address invalid":         {[]string{"-master=http://[", "-leader-elect"}, 1, "clientset of the leader election"},
		"renew deadline too long": {[]string{"-leader-elect-renew-deadline=20s"}, 2, "-leader-elect-renew-deadline"},
		"server unreachable":      {[]string{"-master=http://127.0.0.1:1"}, 1, "cannot be reached"},
		"unknown flag":            {[]string{"-frobnicate"}, 2, "-frobnicate"},
		"unexpected argument":     {[]string{"now"}, 2, `"now"`},
		"no workers":              {[]string{"-workers=0"}, 2, "-workers"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, test.flags...)
			p.waitForExit(test.code, 20*time.Second)
			output := strings.TrimSpace(p.log.String())
			if !strings.HasPrefix(output, "Error: ") || strings.Contains(output, "\n") || !strings.Contains(output, test.want) {
				t.Errorf("got output %q, want a single error line with %q", output, test.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "-version")
	p.waitForExit(0, 10*time.Second)
	if output := p.log.String(); !strings.HasPrefix(output, "sample-controller ") || !strings.Contains(output, " go1.") {
		t.Errorf("unexpected output of -version: %q", output)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--help")
	p.waitForExit(0, 10*time.Second)
	if !strings.Contains(p.log.String(), "Usage: sample-controller [flags]") {
		t.Errorf("unexpected output of --help: %q", p.log)
	}
}

func TestJSONLogging(t *testing.T) {
	t.Parallel()
	controller := startController(t, newNamespace(t), "-logging-format=json")
	for line := range strings.Lines(controller.log.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("the line is not JSON: %s", line)
		}
	}
}
