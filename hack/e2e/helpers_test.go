// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"

	"k8s.io/sample-controller/hack/cluster"
)

// convergence bounds the time until the desired state of a Foo is reached. It usually takes a fraction of it.
const convergence = time.Minute

// kubectl runs kubectl as cluster administrator and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := tryKubectl(t, "", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// tryKubectl runs kubectl with a standard input and returns its error.
func tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	// Not with the context of the test, which is done when cleanup functions run kubectl.
	// On a busy machine the API server may take longer than the 32 s that kubectl gives discovery and OpenAPI by default.
	command := local.Command(context.Background(), "kubectl", append([]string{"--request-timeout=5m"}, args...)...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

// eventually polls until check returns nil. At the timeout the test fails with the last error.
func eventually(t *testing.T, timeout time.Duration, check func() error) {
	t.Helper()
	requireNoError(t, poll(t.Context(), timeout, check))
}

// poll is eventually for goroutines other than that of the test.
func poll(ctx context.Context, timeout time.Duration, check func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("timed out after %s: %w", timeout, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns when there is something to receive, or earlier when the test ends.
func wait[T any](t *testing.T, channel <-chan T) {
	select {
	case <-channel:
	case <-t.Context().Done():
	}
}

// requireNoError ends the test if there is an error.
func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expectNoError fails the test if there is an error, and lets it continue.
func expectNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

var nonNameCharacters = regexp.MustCompile("[^a-z0-9]+")

// newNamespace creates a namespace that is deleted at the end of the test, and returns its name.
func newNamespace(t *testing.T) string {
	t.Helper()
	client := kubeClient.CoreV1().Namespaces()
	prefix := nonNameCharacters.ReplaceAllString(strings.ToLower(t.Name()), "-")
	created, err := client.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix[:min(len(prefix), 50)] + "-"},
	}, metav1.CreateOptions{})
	requireNoError(t, err)
	t.Cleanup(func() {
		expectNoError(t, client.Delete(context.Background(), created.Name, metav1.DeleteOptions{}))
	})
	return created.Name
}

// deleteCRD deletes the CRD, and with it all Foos, until the test installs it again or ends.
func deleteCRD(t *testing.T) {
	t.Helper()
	kubectl(t, "delete", "-f", crdFile)
	t.Cleanup(func() {
		kubectl(t, "apply", "-f", crdFile)
		waitForCRD(t)
	})
}

func waitForCRD(t *testing.T) {
	t.Helper()
	kubectl(t, "wait", "--for=condition=Established", "crd/foos.samplecontroller.k8s.io", "--timeout=30s")
}

// createFoo creates a newFoo.
func createFoo(t *testing.T, namespace, name, deploymentName string, replicas int32) *samplev1alpha1.Foo {
	t.Helper()
	foo := newFoo(name, deploymentName, replicas)
	created, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Create(t.Context(), foo, metav1.CreateOptions{})
	requireNoError(t, err)
	return created
}

// newFoo returns a Foo. With 0 replicas spec.replicas is unset.
func newFoo(name, deploymentName string, replicas int32) *samplev1alpha1.Foo {
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: deploymentName},
	}
	if replicas > 0 {
		foo.Spec.Replicas = &replicas
	}
	return foo
}

// newDeployment returns a Deployment that no Foo controls.
func newDeployment(name, container string, labels map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: container + ":latest"}}},
			},
		},
	}
}

// createReadyFoo creates a Foo and waits until its replicas are available.
func createReadyFoo(t *testing.T, namespace, name, deploymentName string, replicas int32) *samplev1alpha1.Foo {
	t.Helper()
	foo := createFoo(t, namespace, name, deploymentName, replicas)
	waitForReplicas(t, namespace, name, replicas)
	return foo
}

func patchFoo(t *testing.T, namespace, name, patch string) {
	t.Helper()
	kubectl(t, "patch", "-n", namespace, "foo/"+name, "--type=merge", "-p", patch)
}

func rename(t *testing.T, namespace, name, deploymentName string) {
	t.Helper()
	patchFoo(t, namespace, name, fmt.Sprintf(`{"spec":{"deploymentName":%q}}`, deploymentName))
}

// checkUnchanged fails the test if the spec of a Deployment has changed or if it got an owner.
func checkUnchanged(t *testing.T, before *appsv1.Deployment) {
	t.Helper()
	after := getDeployment(t, before.Namespace, before.Name)
	if after.Generation != before.Generation || len(after.OwnerReferences) > 0 {
		t.Errorf("Deployment %s, which is not controlled by a Foo, was changed: %+v", after.Name, after)
	}
}

func getFoo(t *testing.T, namespace, name string) *samplev1alpha1.Foo {
	t.Helper()
	foo, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Get(t.Context(), name, metav1.GetOptions{})
	requireNoError(t, err)
	return foo
}

func getDeployment(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	deployment, err := findDeployment(t, namespace, name)
	requireNoError(t, err)
	return deployment
}

func findDeployment(t *testing.T, namespace, name string) (*appsv1.Deployment, error) {
	return kubeClient.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
}

// waitForReplicas waits until the latest generation of a Foo is Ready, with this number of desired and available replicas in the
// Deployment and in the status of the Foo.
func waitForReplicas(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	waitForReplicasWithin(t, convergence, namespace, name, replicas)
}

func waitForReplicasWithin(t *testing.T, timeout time.Duration, namespace, name string, replicas int32) {
	t.Helper()
	eventually(t, timeout, func() error {
		foo := getFoo(t, namespace, name)
		if err := checkAvailable(t, namespace, foo.Spec.DeploymentName, replicas); err != nil {
			return err
		}
		status := foo.Status
		if status.ObservedGeneration != foo.Generation || status.AvailableReplicas != replicas || status.Replicas != replicas ||
			!meta.IsStatusConditionTrue(status.Conditions, samplev1alpha1.ConditionReady) {
			return fmt.Errorf("the status at generation %d is %+v, want Ready with %d replicas", foo.Generation, status, replicas)
		}
		return nil
	})
}

func checkAvailable(t *testing.T, namespace, name string, replicas int32) error {
	deployment, err := findDeployment(t, namespace, name)
	if err != nil {
		return err
	}
	if status := deployment.Status; *deployment.Spec.Replicas != replicas || status.AvailableReplicas != replicas || status.Replicas != replicas {
		return fmt.Errorf("the Deployment has %d of %d replicas available, want %d", status.AvailableReplicas, *deployment.Spec.Replicas, replicas)
	}
	return nil
}

// waitForStalled waits until the latest generation of a Foo is Stalled for a reason, and returns its Ready condition.
func waitForStalled(t *testing.T, namespace, name, reason string) *metav1.Condition {
	t.Helper()
	var ready *metav1.Condition
	eventually(t, convergence, func() error {
		foo := getFoo(t, namespace, name)
		ready = meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || ready.ObservedGeneration != foo.Generation ||
			!meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled) {
			return fmt.Errorf("the conditions of %s are %+v, want Stalled with reason %s", name, foo.Status.Conditions, reason)
		}
		return nil
	})
	return ready
}

// waitForEvent waits for an event about a Foo.
func waitForEvent(t *testing.T, foo *samplev1alpha1.Foo, eventType, reason, message string) {
	t.Helper()
	eventually(t, convergence, func() error {
		events, err := listEvents(t, foo, reason)
		if !slices.ContainsFunc(events, func(event corev1.Event) bool { return event.Type == eventType && event.Message == message }) {
			return fmt.Errorf("no %s event %s %q: there are %d with this reason (%v)", eventType, reason, message, len(events), err)
		}
		return nil
	})
}

// waitForEventCount waits until exactly this number of events with a reason has been recorded for a Foo.
func waitForEventCount(t *testing.T, foo *samplev1alpha1.Foo, reason string, want int32) {
	t.Helper()
	eventually(t, convergence, func() error {
		events, err := listEvents(t, foo, reason)
		var got int32
		for _, event := range events {
			got += event.Count
		}
		if err != nil || got != want {
			return fmt.Errorf("got %d events with reason %s (%v), want %d", got, reason, err, want)
		}
		return nil
	})
}

func listEvents(t *testing.T, foo *samplev1alpha1.Foo, reason string) ([]corev1.Event, error) {
	selector := "involvedObject.uid=" + string(foo.UID) + ",reason=" + reason
	events, err := kubeClient.CoreV1().Events(foo.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return events.Items, nil
}

// waitForKstatus waits for the status of a Foo as computed by kstatus, which Helm, Flux and others use.
func waitForKstatus(t *testing.T, namespace, name string, want status.Status) {
	t.Helper()
	eventually(t, convergence, func() error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(getFoo(t, namespace, name))
		if err != nil {
			return err
		}
		got, err := status.Compute(&unstructured.Unstructured{Object: content})
		if err != nil || got.Status != want {
			return fmt.Errorf("kstatus = %+v (%v), want %s", got, err, want)
		}
		return nil
	})
}

// waitForDeployments waits until a namespace has exactly these Deployments. The garbage collector discovers new resources every 30 seconds.
func waitForDeployments(t *testing.T, namespace string, names ...string) {
	t.Helper()
	eventually(t, 2*convergence, func() error {
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

// waitUntilStable returns the elements once their number has not changed for the quiet period.
func waitUntilStable[T any](t *testing.T, quietPeriod time.Duration, list func() []T) (elements []T) {
	t.Helper()
	changed := time.Now()
	eventually(t, convergence, func() error {
		if latest := list(); len(latest) != len(elements) {
			elements, changed = latest, time.Now()
		}
		if since := time.Since(changed); since < quietPeriod {
			return fmt.Errorf("the newest of %d requests was seen %s ago", len(elements), since)
		}
		return nil
	})
	return elements
}

// auditedRequests returns the requests of a user in the audit log, each as "verb resource/subresource name".
func auditedRequests(t *testing.T, user string, include func(cluster.Request) bool) (requests []string) {
	t.Helper()
	audited, err := local.Requests()
	requireNoError(t, err)
	for _, request := range audited {
		if request.User == user && include(request) {
			resource := strings.TrimSuffix(request.Resource+"/"+request.Subresource, "/")
			requests = append(requests, fmt.Sprintf("%s %s %s", request.Verb, resource, request.Name))
		}
	}
	return requests
}

// requestsIn returns the requests of the controller in a namespace, other than watches.
func requestsIn(t *testing.T, namespace string) []string {
	t.Helper()
	return auditedRequests(t, user, func(r cluster.Request) bool { return r.Namespace == namespace && r.Verb != "watch" })
}

// stableRequestsIn is requestsIn once there have been no more requests for a second: the audit log lags behind.
func stableRequestsIn(t *testing.T, namespace string) []string {
	t.Helper()
	return waitUntilStable(t, time.Second, func() []string { return requestsIn(t, namespace) })
}

// get returns the status code and body of a response, or 0 and the error.
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
