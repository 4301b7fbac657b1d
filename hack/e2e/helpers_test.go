// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// convergence is how long the cluster may take to get to where a Foo wants it. It takes a fraction of that.
const convergence = 30 * time.Second

// kubectl runs kubectl as the cluster's administrator and returns what it printed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := tryKubectl(t, "", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// tryKubectl is kubectl with a standard input, and without the demand that it succeeds.
func tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	// Not the test's context: clean-ups run kubectl too, when that has ended.
	command := local.Command(context.Background(), "kubectl", args...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

// eventually polls until check returns nil. At the timeout the test fails with the last error.
func eventually(t *testing.T, timeout time.Duration, check func() error) {
	t.Helper()
	must(t, poll(t.Context(), timeout, check))
}

// poll is eventually for those who may not end the test.
func poll(ctx context.Context, timeout time.Duration, check func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s still: %w", timeout, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func should(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

var notInNames = regexp.MustCompile("[^a-z0-9]+")

// newNamespace returns the name of a new namespace, which goes at the end of the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	client := kubeClient.CoreV1().Namespaces()
	prefix := notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-")
	created, err := client.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix[:min(len(prefix), 50)] + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.Background(), created.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return created.Name
}

// createFoo creates a Foo; with 0 replicas it is one that leaves the count alone.
func createFoo(t *testing.T, namespace, name, deploymentName string, replicas int32) *samplev1alpha1.Foo {
	t.Helper()
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: deploymentName},
	}
	if replicas > 0 {
		foo.Spec.Replicas = &replicas
	}
	created, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Create(t.Context(), foo, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// createFooSurely creates a Foo whose Deployment has its name, as soon as the API server lets it.
func createFooSurely(t *testing.T, namespace, name string) {
	one := int32(1)
	foo := &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: samplev1alpha1.FooSpec{DeploymentName: name, Replicas: &one}}
	deadline := time.Now().Add(convergence)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Create(ctx, foo, metav1.CreateOptions{})
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the Foo %s cannot be created: %v", name, err)
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

func storeFoo(t *testing.T, namespace, name, spec string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":%q},%s}`, name, spec)
	eventually(t, convergence, func() error {
		output, err := tryKubectl(t, manifest, "apply", "--validate=false", "-n", namespace, "-f", "-")
		if err != nil {
			return errors.New(output)
		}
		return nil
	})
}

func rename(t *testing.T, namespace, name, deploymentName string) {
	t.Helper()
	kubectl(t, "patch", "-n", namespace, "foo/"+name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"deploymentName":%q}}`, deploymentName))
}

func getFoo(t *testing.T, namespace, name string) *samplev1alpha1.Foo {
	t.Helper()
	foo, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return foo
}

func getDeployment(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	deployment, err := findDeployment(t, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

func findDeployment(t *testing.T, namespace, name string) (*appsv1.Deployment, error) {
	return kubeClient.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
}

// wantReplicas waits until the Foo is Ready in its newest generation, and it and its Deployment say that exactly so many
// replicas are there and available.
func wantReplicas(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	wantReplicasWithin(t, convergence, namespace, name, replicas)
}

func wantReplicasWithin(t *testing.T, timeout time.Duration, namespace, name string, replicas int32) {
	t.Helper()
	eventually(t, timeout, func() error {
		foo := getFoo(t, namespace, name)
		deployment, err := findDeployment(t, namespace, foo.Spec.DeploymentName)
		if err != nil {
			return err
		}
		if status := deployment.Status; *deployment.Spec.Replicas != replicas || status.AvailableReplicas != replicas {
			return fmt.Errorf("the Deployment has %d of %d replicas available, want %d", status.AvailableReplicas, *deployment.Spec.Replicas, replicas)
		}
		status := foo.Status
		if status.ObservedGeneration != foo.Generation || status.AvailableReplicas != replicas || status.Replicas != replicas ||
			!meta.IsStatusConditionTrue(status.Conditions, samplev1alpha1.ConditionReady) {
			return fmt.Errorf("the status of generation %d is %+v, want %d replicas ready", foo.Generation, status, replicas)
		}
		return nil
	})
}

// wantReason waits until the Foo's newest generation is not Ready for the given reason, and returns that condition.
func wantReason(t *testing.T, namespace, name, reason string) *metav1.Condition {
	t.Helper()
	var ready *metav1.Condition
	eventually(t, convergence, func() error {
		foo := getFoo(t, namespace, name)
		ready = meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || ready.ObservedGeneration != foo.Generation ||
			!meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled) {
			return fmt.Errorf("the conditions of %s are %+v, want Stalled for %s", name, foo.Status.Conditions, reason)
		}
		return nil
	})
	return ready
}

// wantEvent waits for an event about a Foo.
func wantEvent(t *testing.T, foo *samplev1alpha1.Foo, eventType, reason, message string) {
	t.Helper()
	eventually(t, convergence, func() error {
		events, err := kubeClient.CoreV1().Events(foo.Namespace).List(context.Background(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(foo.UID),
		})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Type == eventType && event.Reason == reason && event.Message == message {
				return nil
			}
		}
		return fmt.Errorf("no event %s %s %q among %d", eventType, reason, message, len(events.Items))
	})
}

// wantEventCount waits until exactly so many events of a reason have been recorded about a Foo.
func wantEventCount(t *testing.T, foo *samplev1alpha1.Foo, reason string, want int32) {
	t.Helper()
	eventually(t, convergence, func() error {
		events, err := kubeClient.CoreV1().Events(foo.Namespace).List(context.Background(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(foo.UID) + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		var got int32
		for _, event := range events.Items {
			got += event.Count
		}
		if got != want {
			return fmt.Errorf("%d events %s, want %d", got, reason, want)
		}
		return nil
	})
}

// wantKstatus waits until kstatus, which Helm, Flux and others use, says of the Foo what it should.
func wantKstatus(t *testing.T, namespace, name string, want status.Status) {
	t.Helper()
	eventually(t, convergence, func() error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(getFoo(t, namespace, name))
		if err != nil {
			return err
		}
		got, err := status.Compute(&unstructured.Unstructured{Object: content})
		if err != nil {
			return err
		}
		if got.Status != want {
			return fmt.Errorf("kstatus says %s (%s), want %s", got.Status, got.Message, want)
		}
		return nil
	})
}

// wantOnlyDeployments waits until the namespace has Deployments of exactly these names.
func wantOnlyDeployments(t *testing.T, namespace string, names ...string) {
	t.Helper()
	eventually(t, convergence, func() error {
		list, err := kubeClient.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, deployment := range list.Items {
			got = append(got, deployment.Name)
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("the Deployments are %q, want %q", got, names)
		}
		return nil
	})
}

// settledRequestsOf is requestsOf once the audit log, which is a little behind, has not changed for a second.
func settledRequestsOf(t *testing.T, namespace string) (requests []string) {
	t.Helper()
	changed := time.Now()
	eventually(t, convergence, func() error {
		now := requestsOf(t, namespace)
		if len(now) != len(requests) {
			requests, changed = now, time.Now()
		}
		if since := time.Since(changed); since < time.Second {
			return fmt.Errorf("the newest of %d requests was seen %s ago", len(requests), since)
		}
		return nil
	})
	return requests
}

// requestsOf returns the requests in a namespace of the program under test, other than watches, each as
// "verb resource/subresource name".
func requestsOf(t *testing.T, namespace string) []string {
	t.Helper()
	requests, err := local.Requests()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, request := range requests {
		if request.User == user && request.Namespace == namespace && request.Verb != "watch" {
			resource := strings.TrimSuffix(request.Resource+"/"+request.Subresource, "/")
			texts = append(texts, fmt.Sprintf("%s %s %s", request.Verb, resource, request.Name))
		}
	}
	return texts
}

func countPrefix(requests []string, prefix string) (count int) {
	for _, request := range requests {
		if strings.HasPrefix(request, prefix+" ") {
			count++
		}
	}
	return count
}

// writesOf returns the requests of a user that change something, other than his Lease, each as "verb resource/subresource name".
func writesOf(t *testing.T, user string) []string {
	t.Helper()
	requests, err := local.Requests()
	if err != nil {
		t.Fatal(err)
	}
	var writes []string
	for _, request := range requests {
		switch request.Verb {
		case "get", "list", "watch":
		default:
			if request.User == user && request.Resource != "leases" {
				writes = append(writes, fmt.Sprintf("%s %s/%s %s", request.Verb, request.Resource, request.Subresource, request.Name))
			}
		}
	}
	return writes
}

// get returns the status and the body of an answer, or 0 and the error.
func get(address, path string) (status int, body string) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
