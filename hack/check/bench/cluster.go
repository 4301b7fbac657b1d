// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"golang.org/x/sync/errgroup"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	crdFile = root + "/artifacts/examples/crd.yaml"

	benchNamespace   = "bench"   // Foos that converge all at once.
	editedNamespace  = "edited"  // Foos that a user edits one by one.
	unownedNamespace = "unowned" // Deployments that are not controlled by a Foo.

	// concurrency is the number of concurrent requests of the benchmark's own client.
	concurrency = 16
)

// testCluster is an etcd and an API server, and admin clients for it.
type testCluster struct {
	*cluster.Cluster
	config *rest.Config
	kube   kubernetes.Interface
	sample clientset.Interface
}

func startCluster(ctx context.Context) (*testCluster, error) {
	// The control plane with Go's default, not the lower value that the local Kubernetes sets. The measured programs must not
	// inherit it.
	os.Setenv("GOGC", "100")
	local, err := cluster.Start(ctx, cluster.Options{BinDir: binDir, APIServerOnly: true})
	os.Unsetenv("GOGC")
	if err != nil {
		return nil, err
	}
	c := &testCluster{Cluster: local}
	if err := c.prepare(ctx); err != nil {
		local.Stop()
		return nil, err
	}
	return c, nil
}

func (c *testCluster) prepare(ctx context.Context) error {
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return err
	}
	c.config.QPS = -1
	c.kube = kubernetes.NewForConfigOrDie(c.config)
	c.sample = clientset.NewForConfigOrDie(c.config)
	for _, args := range [][]string{
		{"apply", "-f", crdFile},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd/foos.samplecontroller.k8s.io"},
		{"create", "namespace", benchNamespace},
		{"create", "namespace", editedNamespace},
		{"create", "namespace", unownedNamespace},
	} {
		if output, err := c.Command(ctx, "kubectl", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}

// each calls do concurrently with 0 to count-1.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func nameOf(i int) string { return fmt.Sprintf("foo-%06d", i) }

func (c *testCluster) createFoos(ctx context.Context, namespace string, count int) error {
	return each(ctx, count, func(ctx context.Context, i int) error {
		foo := &samplev1alpha1.Foo{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(i), Namespace: namespace},
			Spec:       samplev1alpha1.FooSpec{DeploymentName: nameOf(i), Replicas: new(int32(1))},
		}
		_, err := c.sample.SamplecontrollerV1alpha1().Foos(namespace).Create(ctx, foo, metav1.CreateOptions{})
		return err
	})
}

func (c *testCluster) scaleFoos(ctx context.Context, namespace string, count int, replicas int32) error {
	return each(ctx, count, func(ctx context.Context, i int) error { return c.scaleFoo(ctx, namespace, nameOf(i), replicas) })
}

func (c *testCluster) scaleFoo(ctx context.Context, namespace, name string, replicas int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := c.sample.SamplecontrollerV1alpha1().Foos(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// createUnownedDeployments creates Deployments that are not controlled by a Foo.
func (c *testCluster) createUnownedDeployments(ctx context.Context, count int) error {
	return each(ctx, count, func(ctx context.Context, i int) error {
		labels := map[string]string{"app.kubernetes.io/name": nameOf(i), "app.kubernetes.io/part-of": "another-application"}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(i), Namespace: unownedNamespace, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "server:1.0"}}},
				},
			},
		}
		_, err := c.kube.AppsV1().Deployments(unownedNamespace).Create(ctx, deployment, metav1.CreateOptions{})
		return err
	})
}

// apiServerCPU returns the CPU seconds that the API server has used.
func (c *testCluster) apiServerCPU(ctx context.Context) (float64, error) {
	metrics, err := c.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	const name = "process_cpu_seconds_total"
	for line := range strings.Lines(string(metrics)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the API server has no metric %s", name)
}

// requests counts resource requests by verb, without watches.
type requests map[string]int

// requestsOf returns the requests of a user between two times.
func (c *testCluster) requestsOf(user string, from, to time.Time) (requests, error) {
	all, err := c.Requests()
	if err != nil {
		return nil, err
	}
	counts := requests{}
	for _, request := range all {
		if request.User == user && request.Resource != "" && request.Verb != "watch" &&
			!request.Received.Before(from) && !request.Received.After(to) {
			counts[request.Verb]++
		}
	}
	return counts, nil
}
