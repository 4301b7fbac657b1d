// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command record writes the metrics of a leader and a standby on a local Kubernetes to hack/check/monitoring/testdata: of a healthy run, and
// of several failures, each at its start and at its end. It leaves out the metrics that neither an alert nor the dashboard uses.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	root      = "../../.."
	namespace = "sample-controller"
)

// failingWebhook makes the creation of Deployments fail with an internal error: nothing listens on port 1.
const failingWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: failing
webhooks:
- name: failing.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig:
    url: https://127.0.0.1:1/
  rules:
  - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{BinDir: root + "/.build/bin"})
	if err != nil {
		return err
	}
	defer c.Stop()
	used, err := usedMetrics()
	if err != nil {
		return err
	}
	r := recorder{ctx: ctx, cluster: c, used: used}
	if err := r.kubectl("", "apply", "-k", root+"/artifacts")(); err != nil {
		return err
	}
	for _, name := range []string{"leader", "standby"} {
		if err := r.start(name); err != nil {
			return err
		}
	}
	var foos strings.Builder
	for i := range 20 {
		foos.WriteString(foo(fmt.Sprintf("healthy-%d", i), fmt.Sprintf("healthy-%d", i)))
	}
	for _, step := range []func() error{
		r.kubectl(foos.String(), "apply", "-f", "-"),
		r.kubectl("", "wait", "--for=condition=Ready", "--timeout=60s", "foos", "--all"),
		r.record("healthy", 90*time.Second), // Three resyncs.

		r.kubectl("", "create", "deployment", "taken", "--image=nginx"),
		r.kubectl(foo("stalled", "taken"), "apply", "-f", "-"),
		r.kubectl("", "wait", "--for=condition=Stalled", "--timeout=60s", "foo/stalled"),
		r.record("stalled", 20*time.Second),
		r.kubectl("", "delete", "foo/stalled"),

		r.kubectl(failingWebhook, "apply", "-f", "-"),
		r.kubectl(foo("failing", "failing"), "apply", "-f", "-"),
		r.record("failing", 20*time.Second),

		func() error { return c.Kill(cluster.APIServer) },
		r.record("outage", 5*time.Second), // The leader exits after 10 s.
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// foo returns the manifest of a Foo.
func foo(name, deployment string) string {
	return fmt.Sprintf("---\n{apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, metadata: {name: %s}, spec: {deploymentName: %s, replicas: 1}}\n",
		name, deployment)
}

type recorder struct {
	ctx       context.Context
	cluster   *cluster.Cluster
	used      map[string]bool // names of metrics
	instances []instance
}

type instance struct{ name, address string }

// kubectl returns a step that runs kubectl.
func (r *recorder) kubectl(input string, args ...string) func() error {
	return func() error {
		command := r.cluster.Command(r.ctx, "kubectl", args...)
		command.Stdin = strings.NewReader(input)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", command.Args, err, output)
		}
		return nil
	}
}

// start starts the controller with the permissions of its manifests. The first one becomes the leader.
func (r *recorder) start(name string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	listener.Close()
	kubeconfig, err := r.cluster.KubeconfigFor("system:serviceaccount:" + namespace + ":sample-controller")
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(root + "/.build/bin/sample-controller")
	if err != nil {
		return err
	}
	command := r.cluster.Command(r.ctx, binary, "-kubeconfig", kubeconfig, "-metrics-bind-address", address,
		"-leader-elect", "-leader-elect-resource-namespace", namespace)
	if err := command.Start(); err != nil {
		return err
	}
	r.instances = append(r.instances, instance{name, address})
	waitCtx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	want := fmt.Sprintf("\nleader_election_master_status{name=%q} %d\n", "sample-controller", 2-len(r.instances))
	for {
		metrics, err := scrape(address)
		if strings.Contains(metrics, want) {
			return nil
		}
		select {
		case <-waitCtx.Done():
			return fmt.Errorf("waiting for %s: %w, %w", name, waitCtx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// record returns a step that writes the metrics of all instances at once and after a time.
func (r *recorder) record(phase string, duration time.Duration) func() error {
	return func() error {
		fmt.Println("recording", phase)
		if err := r.write(phase, "start"); err != nil {
			return err
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(duration):
			return r.write(phase, "end")
		}
	}
}

func (r *recorder) write(phase, moment string) error {
	for _, instance := range r.instances {
		metrics, err := scrape(instance.address)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		fmt.Fprintf(&file, "# %s\n", time.Now().UTC().Format(time.RFC3339Nano))
		for line := range strings.Lines(metrics) {
			name := metricName(strings.TrimPrefix(line, "# TYPE "))
			if r.used[name] || strings.HasPrefix(name, "sample_controller_") {
				file.WriteString(line)
			}
		}
		name := fmt.Sprintf("testdata/%s-%s-%s.txt", phase, instance.name, moment)
		if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// usedMetrics returns the names of the metrics that the alerts and the dashboard use, among other words.
func usedMetrics() (map[string]bool, error) {
	used := map[string]bool{}
	for _, file := range []string{"alerts/prometheus-rule.yaml", "dashboard/dashboard.json"} {
		content, err := os.ReadFile(filepath.Join(root, "artifacts/components", file))
		if err != nil {
			return nil, err
		}
		for _, word := range word.FindAllString(string(content), -1) {
			used[metricName(word)] = true
		}
	}
	return used, nil
}

var word = regexp.MustCompile(`\w+`)

// metricName returns the name with which a text begins, which is that of a metric or, with a suffix, of a series of a histogram.
func metricName(text string) string {
	name := word.FindString(text)
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

func scrape(address string) (string, error) {
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
