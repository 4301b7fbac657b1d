// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package reality makes on the local Kubernetes what the walks have shown.
package reality

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/sample-controller/hack/check/others"
	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

const (
	binDir   = "../../../../.build/bin"
	testdata = "../testdata/"
)

// fixture is a cluster of a test.
type fixture struct {
	*testing.T
	*cluster.Cluster
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func start(t *testing.T) *fixture {
	t.Helper()
	local, err := cluster.Start(t.Context(), cluster.Options{BinDir: binDir})
	if err != nil {
		t.Fatalf("%v; build the local Kubernetes first: make cluster", err)
	}
	t.Cleanup(func() { _ = local.Stop() })
	config, err := clientcmd.BuildConfigFromFlags("", local.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return &fixture{t, local, config, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}
}

// run runs a program until the test ends. intercept sees its requests.
func (f *fixture) run(program simulation.Program, intercept func(next http.RoundTripper) http.RoundTripper) {
	ctx, cancel := context.WithCancel(context.Background())
	config := rest.CopyConfig(f.config)
	config.Wrap(intercept)
	var running sync.WaitGroup
	running.Go(func() {
		if err := program(ctx, config); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(func() { cancel(); running.Wait() })
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// eventually waits until something is so.
func (f *fixture) eventually(timeout time.Duration, what string, is func() bool) {
	f.Helper()
	for due := time.Now().Add(timeout); !is(); time.Sleep(100 * time.Millisecond) { // It asks again and again.
		if time.Now().After(due) {
			f.Fatalf("after %s: %s", timeout, what)
		}
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// create creates the first object of a file of the walks, with a name.
func (f *fixture) create(resource schema.GroupVersionResource, file, name string) {
	f.Helper()
	raw, err := os.ReadFile(testdata + file)
	f.must(err)
	list, err := apiserver.ReadYAML(raw)
	f.must(err)
	list[0].SetName(name)
	_, err = f.dynamic.Resource(resource).Namespace("default").Create(f.Context(), list[0], metav1.CreateOptions{})
	f.must(err)
}

func (f *fixture) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	f.Helper()
	o, err := f.dynamic.Resource(resource).Namespace("default").Get(f.Context(), name, metav1.GetOptions{})
	f.must(err)
	return o
}

func (f *fixture) merge(resource schema.GroupVersionResource, name, patch string) {
	f.Helper()
	_, err := f.dynamic.Resource(resource).Namespace("default").Patch(f.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	f.must(err)
}

func (f *fixture) pods() []corev1.Pod {
	f.Helper()
	list, err := f.kube.CoreV1().Pods("default").List(f.Context(), metav1.ListOptions{})
	f.must(err)
	return list.Items
}

var (
	jobs         = batchv1.SchemeGroupVersion.WithResource("jobs")
	pods         = corev1.SchemeGroupVersion.WithResource("pods")
	replicaSets  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	requests     = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	crds         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// TestJob has kube-controller-manager itself: a Job with a Pod that has lost its labels is not gone half a minute after its deletion.
func TestJob(t *testing.T) {
	f := start(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
		NodeSelector: map[string]string{"no": "node"}, // kwok completes the Pods of Jobs as soon as they run.
	}}}}
	_, err := f.kube.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
	f.must(err)
	f.eventually(30*time.Second, "there is no Pod", func() bool { return len(f.pods()) == 1 })
	f.merge(pods, f.pods()[0].Name, `{"metadata": {"labels": null}}`)
	f.must(f.kube.BatchV1().Jobs("default").Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	time.Sleep(30 * time.Second) // What is judged is that nothing happens meanwhile, which no event tells.
	pod := f.pods()[0]
	t.Logf("the Job has the finalizers %s, and its Pod %s", f.get(jobs, "a").GetFinalizers(), pod.Finalizers)
	if pod.DeletionTimestamp == nil || len(pod.Finalizers) != 1 || pod.Finalizers[0] != batchv1.JobTrackingFinalizer {
		t.Errorf("its Pod is %v", pod)
	}
}

// TestTTL raises the TTL of a Job when the controller has read it, and has not deleted it yet: the Job is deleted.
func TestTTL(t *testing.T) {
	f := start(t)
	f.create(jobs, "jobs.yaml", "a")
	isDone := func() bool {
		_, done, _ := unstructured.NestedString(f.get(jobs, "a").Object, "status", "completionTime")
		return done
	}
	f.eventually(30*time.Second, "the Job is not complete", isDone)
	f.must(f.Freeze(cluster.ControllerManager)) // It has the same controller.
	var deletions atomic.Int32
	f.run(others.TTLAfterFinished, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && deletions.Add(1) == 1 {
				f.merge(jobs, "a", `{"spec": {"ttlSecondsAfterFinished": 3600}}`)
			}
			return next.RoundTrip(r)
		})
	})
	f.eventually(30*time.Second, "the Job is not deleted", func() bool { return f.get(jobs, "a").GetDeletionTimestamp() != nil })
	ttl, _, _ := unstructured.NestedInt64(f.get(jobs, "a").Object, "spec", "ttlSecondsAfterFinished")
	if t.Logf("its TTL is %d seconds, and it is being deleted", ttl); ttl != 3600 {
		t.Errorf("its TTL is %d", ttl)
	}
}

// late lets the watches of a resource stand still from a moment on.
type late struct {
	path    string
	held    atomic.Bool
	creates atomic.Int32 // of Pods, since then
}

func (l *late) intercept(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if l.held.Load() && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
			l.creates.Add(1)
		}
		response, err := next.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, l.path) && r.URL.Query().Get("watch") != "" {
			response.Body = &lateBody{response.Body, l}
		}
		return response, err
	})
}

// lateBody is the body of a watch.
type lateBody struct {
	io.ReadCloser
	late *late
}

func (b *lateBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	for b.late.held.Load() {
		time.Sleep(10 * time.Millisecond) // This is the network that is slow.
	}
	return n, err
}

// startReplicaSet has a ReplicaSet with two Pods, and the controller of ReplicaSets with a watch of them that can be held.
func startReplicaSet(t *testing.T) (*fixture, *late) {
	f, l := start(t), &late{path: "/replicasets"}
	f.Cleanup(func() { l.held.Store(false) })
	f.create(replicaSets, "replicasets.yaml", "a")
	f.eventually(30*time.Second, "it has not two Pods", func() bool { return len(f.pods()) == 2 })
	f.run(others.ReplicaSet, l.intercept)
	return f, l
}

// TestReplicaSetIsCreatedAgain creates a ReplicaSet again while the watch of the controller is late: its status is that of the former one.
func TestReplicaSetIsCreatedAgain(t *testing.T) {
	f, l := startReplicaSet(t)
	f.must(f.Freeze(cluster.ControllerManager)) // It has the same controller.
	f.merge(replicaSets, "a", `{"spec": {"replicas": 3}}`)
	observed := func() int64 {
		n, _, _ := unstructured.NestedInt64(f.get(replicaSets, "a").Object, "status", "observedGeneration")
		return n
	}
	f.eventually(30*time.Second, "its generation is not observed", func() bool { return observed() == 2 })
	time.Sleep(5 * time.Second) // The Pods are ready, and nothing is written any more.
	l.held.Store(true)
	f.must(f.kube.AppsV1().ReplicaSets("default").Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	f.create(replicaSets, "replicasets.yaml", "a")
	f.must(f.kube.CoreV1().Pods("default").Delete(t.Context(), f.pods()[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	f.eventually(30*time.Second, "it has no status", func() bool { return observed() > 0 })
	a := f.get(replicaSets, "a")
	if t.Logf("its generation is %d, and its status %v", a.GetGeneration(), a.Object["status"]); a.GetGeneration() != 1 || observed() != 2 {
		t.Errorf("generation %d is observed, and the newest one is %d", observed(), a.GetGeneration())
	}
}

// TestReplicaSetIsDeleted deletes a ReplicaSet while the watch of the controller is late: it creates Pods that are deleted at once.
func TestReplicaSetIsDeleted(t *testing.T) {
	f, l := startReplicaSet(t)
	time.Sleep(5 * time.Second) // Nothing is written any more.
	l.held.Store(true)
	f.must(f.kube.AppsV1().ReplicaSets("default").Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	f.eventually(10*time.Second, "it does not create Pods again and again", func() bool { return l.creates.Load() >= 20 })
}

// startCertManager has the controllers of cert-manager run, and counts how often the creation of a CertificateRequest fails.
func startCertManager(t *testing.T) (*fixture, *atomic.Int32) {
	f := start(t)
	files, err := others.CertManagerCRDs()
	f.must(err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		f.must(err)
		list, err := apiserver.ReadYAML(raw)
		f.must(err)
		for _, crd := range list {
			_, err := f.dynamic.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{})
			f.must(err)
		}
	}
	f.eventually(30*time.Second, "the CRDs are not served", func() bool {
		list, err := f.kube.Discovery().ServerResourcesForGroupVersion("cert-manager.io/v1")
		return err == nil && len(list.APIResources) >= 2*len(files)
	})
	conflicts := &atomic.Int32{}
	f.run(others.CertManager, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/certificaterequests") && response.StatusCode == http.StatusConflict {
				conflicts.Add(1)
			}
			return response, err
		})
	})
	return f, conflicts
}

// conditionsOf returns the conditions of a Certificate: type, status, generation and message.
func (f *fixture) conditionsOf(name string) (conditions []string) {
	list, _, _ := unstructured.NestedSlice(f.get(certificates, name).Object, "status", "conditions")
	for _, c := range list {
		condition := c.(map[string]any)
		conditions = append(conditions, fmt.Sprintf("%v %v of generation %v: %v", condition["type"], condition["status"], condition["observedGeneration"], condition["message"]))
	}
	return conditions
}

// TestCertificateRequest has a CertificateRequest of the name that a Certificate's would have: its creation is tried for ever, and no condition
// says why there is no certificate.
func TestCertificateRequest(t *testing.T) {
	f, conflicts := startCertManager(t)
	f.create(requests, "request.yaml", "a-1")
	f.create(certificates, "certificates.yaml", "a")
	f.eventually(2*time.Minute, "it is not tried again", func() bool { return conflicts.Load() >= 5 })
	if text := strings.Join(f.conditionsOf("a"), "\n"); strings.Contains(text, "a-1") {
		t.Errorf("a condition says why:\n%s", text)
	}
}

// TestCertificate changes a Certificate while it is issued: its condition is about the old generation until it is issued.
func TestCertificate(t *testing.T) {
	f, _ := startCertManager(t)
	f.create(certificates, "certificates.yaml", "a")
	f.eventually(30*time.Second, "it has not two conditions", func() bool { return len(f.conditionsOf("a")) == 2 })
	f.merge(certificates, "a", `{"spec": {"commonName": "other.example.com"}}`)
	time.Sleep(30 * time.Second) // What is judged is that nothing happens meanwhile, which no event tells.
	text := strings.Join(f.conditionsOf("a"), "\n")
	if t.Logf("half a minute later, the conditions:\n%s", text); !strings.Contains(text, "Ready False of generation 2") ||
		!strings.Contains(text, "Issuing True of generation 1") {
		t.Error("they are about another generation")
	}
}
