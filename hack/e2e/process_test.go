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

func TestTheFirstSignalDrains(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			namespace := newNamespace(t)
			gate := startGate(t)
			controller := gate.startController(t, namespace)
			foo := createFoo(t, namespace, "draining", "draining", 1)

			request := <-gate.arrived
			controller.signal(signal)
			controller.waitForLog("Shutting down workers")
			select {
			case <-controller.exited:
				t.Fatal("the program ended while a sync was running")
			default:
			}
			close(request)
			controller.wantExit(0, 20*time.Second)
			if _, err := findDeployment(t, namespace, "draining"); err != nil {
				t.Errorf("the sync that was running was not finished: %v", err)
			}
			if got := getFoo(t, namespace, "draining").Status.ObservedGeneration; got != 1 {
				t.Errorf("observedGeneration = %d: the sync that was running was not finished", got)
			}
			wantEvent(t, foo, "Normal", "Synced", "Foo synced successfully")
			log := controller.log.String()
			for _, text := range []string{
				"Setting up event handlers", "Starting Foo controller", "Waiting for informer caches to sync", "Starting workers",
				"Started workers", "Shutting down workers",
			} {
				_, after, found := strings.Cut(log, text)
				if !found {
					t.Fatalf("the log does not say %q after what comes before it, as tutorials show it:\n%s", text, controller.log)
				}
				log = after
			}
		})
	}
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	gate := startGate(t)
	controller := gate.startController(t, namespace)
	createFoo(t, namespace, "hanging", "hanging", 1)
	request := <-gate.arrived
	defer close(request)
	controller.signal(syscall.SIGTERM)
	controller.waitForLog("Shutting down workers")
	controller.signal(syscall.SIGTERM)
	controller.wantExit(1, 5*time.Second)
}

func TestAHangingSyncIsCutShortAtTheShutdownTimeout(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	gate := startGate(t)
	controller := gate.startController(t, namespace, "-shutdown-timeout=100ms")
	createFoo(t, namespace, "hanging", "hanging", 1)
	request := <-gate.arrived
	defer close(request)
	controller.signal(syscall.SIGTERM)
	controller.wantExit(1, 10*time.Second)
	if last := controller.lastLine(); !strings.Contains(last, "cut short") {
		t.Errorf("the last line is %q", last)
	}
}

func TestAsManyFoosAreSyncedAtOnceAsThereAreWorkers(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	gate := startGate(t)
	gate.startController(t, namespace, "-workers=3")
	for i := range 4 {
		name := fmt.Sprintf("busy-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	var held chan struct{}
	arrives := func() bool {
		select {
		case held = <-gate.arrived:
			return true
		case <-time.After(convergence):
			return false
		}
	}
	for i := range 3 {
		if !arrives() {
			t.Fatalf("%d Foos are synced at once, want 3", i)
		}
	}
	select {
	case <-gate.arrived:
		t.Fatal("a fourth Foo is synced beside three others")
	case <-time.After(immediately): // Time enough for a fourth worker.
	}
	close(held)
	if !arrives() {
		t.Error("the fourth Foo is not synced although a worker has time for it")
	}
}

func TestRequestsAreLimitedIfThatIsWanted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-kube-api-qps=2", "-kube-api-burst=1")
	const foos = 6
	for i := range foos {
		name := fmt.Sprintf("limited-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	eventually(t, 2*convergence, func() error {
		requests, err := local.Requests()
		if err != nil {
			return err
		}
		var times []time.Time
		for _, request := range requests {
			if request.User == user && request.Namespace == namespace && request.Verb == "create" && request.Resource == "deployments" {
				times = append(times, request.Received)
			}
		}
		if len(times) < foos {
			return fmt.Errorf("%d Deployments are created", len(times))
		}
		// Two in a second are 2.5 s for six. The first may be half a second late.
		slices.SortFunc(times, time.Time.Compare)
		if took := times[foos-1].Sub(times[0]); took < 2*time.Second {
			t.Errorf("%d Deployments were created within %s at two requests in a second", foos, took)
		}
		return nil
	})
}

func TestAMissingCustomResourceDefinitionIsReportedAndWaitedFor(t *testing.T) {
	kubectl(t, "delete", "-f", crdFile)
	t.Cleanup(func() {
		kubectl(t, "apply", "-f", crdFile)
		kubectl(t, "wait", "--for=condition=Established", "crd/foos.samplecontroller.k8s.io", "--timeout=30s")
	})
	const command = "kubectl apply -f artifacts/examples/crd.yaml"
	kubeconfig := kubeconfigFor(t, user)
	impatient := startProgram(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=3s")
	patient := startProgram(t, "-kubeconfig", kubeconfig)
	impatient.wantExit(1, 20*time.Second)
	if last := impatient.lastLine(); !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, command) {
		t.Errorf("the last line is %q, want an error that names %q", last, command)
	}
	patient.waitForLog(command)
	kubectl(t, "apply", "-f", crdFile)
	patient.waitForLog("Started workers")
	patient.signal(syscall.SIGTERM)
	patient.wantExit(0, 10*time.Second)
}

// nobody is a user without permissions.
const nobody = "nobody"

func TestAMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	kubeconfig, err := local.KubeconfigFor(nobody)
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, "-kubeconfig", kubeconfig, "-cache-sync-timeout=2s")
	p.wantExit(1, 20*time.Second)
	for _, want := range []string{"permission is missing", `cannot list resource "`, `User "nobody"`} {
		if last := p.lastLine(); !strings.Contains(last, want) {
			t.Errorf("the last line is %q, want %q in it", last, want)
		}
	}
}

func TestAnAPIServerThatDoesNotStreamListsIsServedToo(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	command := local.Command(context.Background(), program, "-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace)
	startCommand(t, command, "KUBE_FEATURE_WatchListClient=false").waitForLog("Started workers")
	createFoo(t, namespace, "listed", "listed", 1)
	wantReplicas(t, namespace, "listed", 1)
}

func TestStartUpErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("this is not a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"no cluster is configured":               {nil, 1, "-kubeconfig"},
		"the kubeconfig is missing":              {[]string{"-kubeconfig=/does/not/exist"}, 1, "/does/not/exist"},
		"the kubeconfig is broken":               {[]string{"-kubeconfig", broken}, 1, "kubeconfig"},
		"an address is in use":                   {[]string{"-kubeconfig", local.Kubeconfig(), "-metrics-bind-address", strings.TrimPrefix(local.URL(), "https://")}, 1, "-metrics-bind-address"},
		"a lease that ends before it is renewed": {[]string{"-leader-elect-renew-deadline=20s"}, 2, "renew deadline"},
		"nobody is at the address":               {[]string{"-master=http://127.0.0.1:1"}, 1, "cannot be reached"},
		"a flag is unknown":                      {[]string{"-frobnicate"}, 2, "-frobnicate"},
		"an argument is unexpected":              {[]string{"now"}, 2, `"now"`},
		"no workers":                             {[]string{"-workers=0"}, 2, "-workers"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProgram(t, test.flags...)
			p.wantExit(test.code, 20*time.Second)
			output := strings.TrimSpace(p.log.String())
			if !strings.HasPrefix(output, "Error: ") || strings.Contains(output, "\n") || !strings.Contains(output, test.want) {
				t.Errorf("the program said %q, want one line with %q", output, test.want)
			}
		})
	}
}

func TestTheVersionIsTold(t *testing.T) {
	p := startProgram(t, "-version")
	p.wantExit(0, 10*time.Second)
	if output := p.log.String(); !strings.HasPrefix(output, "sample-controller ") || !strings.Contains(output, " go1.") {
		t.Errorf("-version said %q", output)
	}
}

func TestHelpIsNoError(t *testing.T) {
	p := startProgram(t, "--help")
	p.wantExit(0, 10*time.Second)
	if !strings.Contains(p.log.String(), "Usage: sample-controller [flags]") {
		t.Errorf("--help said %q", p.log)
	}
}

func TestTheLogCanBeJSON(t *testing.T) {
	t.Parallel()
	controller := startController(t, newNamespace(t), "-logging-format=json")
	for line := range strings.Lines(controller.log.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line is not JSON: %s", line)
		}
	}
}
