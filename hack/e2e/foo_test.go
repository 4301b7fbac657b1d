// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// convergence is how long the cluster may take to get to where a Foo wants it. It takes a fraction of that.
const convergence = 30 * time.Second

func TestTheExampleFooBecomesAnAvailableDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "apply", "-n", namespace, "-f", exampleFile)

	wantReplicas(t, namespace, "example-foo", 1)
	deployment := getDeployment(t, namespace, "example-foo")
	foo := getFoo(t, namespace, "example-foo")
	if !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want a controller reference to the Foo", deployment.OwnerReferences)
	}
	labels := map[string]string{"app": "nginx", "controller": "example-foo"}
	for place, got := range map[string]map[string]string{
		"selector": deployment.Spec.Selector.MatchLabels, "labels": deployment.Labels, "Pod labels": deployment.Spec.Template.Labels,
	} {
		if fmt.Sprint(got) != fmt.Sprint(labels) {
			t.Errorf("%s = %v, want %v", place, got, labels)
		}
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Name != "nginx" ||
		containers[0].Image != "nginx:latest" {
		t.Errorf("containers = %v, want one, nginx of nginx:latest", containers)
	}
	if foo.Status.Replicas != 1 || foo.Status.Selector != "app=nginx,controller=example-foo" {
		t.Errorf("status = %+v", foo.Status)
	}
	wantEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")

	columns := strings.Fields(strings.Split(kubectl(t, "get", "foos", "-n", namespace, "-o", "wide"), "\n")[0])
	if want := []string{"NAME", "DEPLOYMENT", "DESIRED", "AVAILABLE", "READY", "AGE", "REASON", "MESSAGE"}; !slices.Equal(columns, want) {
		t.Errorf("columns = %q, want %q", columns, want)
	}
	if all := kubectl(t, "get", "all", "-n", namespace); !strings.Contains(all, "foo.samplecontroller.k8s.io/example-foo") {
		t.Errorf("kubectl get all does not show the Foo:\n%s", all)
	}
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/example-foo", "--timeout=10s")
}

func TestAllNamespacesAreServedUnlessOneIsNamed(t *testing.T) {
	named, namespace := newNamespace(t), newNamespace(t)
	ofOne := startController(t, named)
	createFoo(t, namespace, "anywhere", "anywhere", 1)
	createFoo(t, named, "named", "named", 1)
	wantReplicas(t, named, "named", 1)
	if status := getFoo(t, namespace, "anywhere").Status; status.ObservedGeneration != 0 {
		t.Errorf("a controller of another namespace has written the status %+v", status)
	}
	ofOne.signal(syscall.SIGTERM)
	ofOne.wantExit(0, 10*time.Second)

	startController(t, "", "-image", "nginx:1.27")
	wantReplicas(t, namespace, "anywhere", 1)
	if image := getDeployment(t, namespace, "anywhere").Spec.Template.Spec.Containers[0].Image; image != "nginx:1.27" {
		t.Errorf("image = %q, want the one of -image", image)
	}
}

func TestScalingAFooScalesItsDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=0") // Only the watches tell the status.
	createFoo(t, namespace, "scaled", "scaled", 1)
	for _, replicas := range []int32{1, 10, 1} {
		kubectl(t, "scale", "-n", namespace, "foo/scaled", fmt.Sprintf("--replicas=%d", replicas))
		wantReplicas(t, namespace, "scaled", replicas)
	}
}

func TestAFooWithoutReplicasLeavesTheCountAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "free", "free", 0)
	wantReplicas(t, namespace, "free", 1)
	kubectl(t, "scale", "-n", namespace, "deployment/free", "--replicas=3")
	wantReplicas(t, namespace, "free", 3)
}

func TestADeploymentThatIsDeletedComesBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "restored", "restored", 2)
	wantReplicas(t, namespace, "restored", 2)
	before := getDeployment(t, namespace, "restored").UID
	kubectl(t, "delete", "-n", namespace, "deployment/restored")
	eventually(t, convergence, func() error {
		if deployment, err := findDeployment(t, namespace, "restored"); err != nil || deployment.UID == before {
			return fmt.Errorf("the Deployment is not back: %w", err)
		}
		return nil
	})
	wantReplicas(t, namespace, "restored", 2)
}

func TestADeploymentThatIsScaledByHandIsPutBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "steady", "steady", 2)
	wantReplicas(t, namespace, "steady", 2)
	kubectl(t, "scale", "-n", namespace, "deployment/steady", "--replicas=5")
	eventually(t, convergence, func() error {
		if replicas := *getDeployment(t, namespace, "steady").Spec.Replicas; replicas != 2 {
			return fmt.Errorf("the Deployment has %d replicas, want 2", replicas)
		}
		return nil
	})
}

func TestGarbageCollectionTakesTheDeploymentOfADeletedFoo(t *testing.T) {
	for _, policy := range []string{"background", "foreground"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			startController(t, namespace)
			createFoo(t, namespace, "deleted", "deleted", 1)
			wantReplicas(t, namespace, "deleted", 1)
			kubectl(t, "delete", "-n", namespace, "foo/deleted", "--cascade="+policy, "--timeout=60s")
			// The garbage collector learns of a new kind within 30 seconds, and until then knows no owner of it.
			eventually(t, convergence+30*time.Second, func() error {
				if _, err := findDeployment(t, namespace, "deleted"); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the Deployment is still there (%v)", err)
				}
				return nil
			})
		})
	}
}

func TestAForeignDeploymentIsLeftAloneUntilItGoes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other:latest")
	before := getDeployment(t, namespace, "taken")
	controller := startController(t, namespace)
	foo := createFoo(t, namespace, "waiting", "taken", 1)

	message := `Resource "taken" already exists and is not managed by Foo`
	wantEvent(t, foo, corev1.EventTypeWarning, "ErrResourceExists", message)
	controller.waitForLog(message[len(`Resource "taken" `):])
	eventually(t, convergence, func() error {
		conditions := getFoo(t, namespace, "waiting").Status.Conditions
		ready := meta.FindStatusCondition(conditions, samplev1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "ErrResourceExists" || ready.Message != message ||
			!meta.IsStatusConditionTrue(conditions, samplev1alpha1.ConditionStalled) {
			return fmt.Errorf("conditions = %v", conditions)
		}
		return nil
	})
	if after := getDeployment(t, namespace, "taken"); after.Generation != before.Generation || len(after.OwnerReferences) > 0 {
		t.Errorf("the foreign Deployment was changed: %v", after)
	}

	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	wantReplicas(t, namespace, "waiting", 1)
	if deployment := getDeployment(t, namespace, "taken"); !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want the Foo that was waiting", deployment.OwnerReferences)
	}
	if meta.FindStatusCondition(getFoo(t, namespace, "waiting").Status.Conditions, samplev1alpha1.ConditionStalled) != nil {
		t.Error("the condition Stalled is still there")
	}
}

func TestBadFoosAreRefusedWithAMessageThatNamesTheField(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, test := range map[string]struct{ metadataName, spec, want string }{
		"no spec":                                   {"bad", "", "spec"},
		"no deploymentName":                         {"bad", "spec: {replicas: 1}", "spec.deploymentName"},
		"an empty deploymentName":                   {"bad", `spec: {deploymentName: "", replicas: 1}`, "spec.deploymentName"},
		"a deploymentName in capitals":              {"bad", "spec: {deploymentName: Bad}", "spec.deploymentName"},
		"a deploymentName of two labels, one empty": {"bad", "spec: {deploymentName: a..b}", "spec.deploymentName"},
		"a deploymentName that is too long":         {"bad", "spec: {deploymentName: " + strings.Repeat("a", 254) + "}", "spec.deploymentName"},
		"0 replicas":                                {"bad", "spec: {deploymentName: a, replicas: 0}", "spec.replicas"},
		"11 replicas":                               {"bad", "spec: {deploymentName: a, replicas: 11}", "spec.replicas"},
		"-1 replicas":                               {"bad", "spec: {deploymentName: a, replicas: -1}", "spec.replicas"},
		"replicas that are a string":                {"bad", `spec: {deploymentName: a, replicas: "3"}`, "spec.replicas"},
		"a name of 64 characters":                   {strings.Repeat("a", 64), "spec: {deploymentName: a}", "metadata.name must be no longer than 63 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\n%s\n", test.metadataName, test.spec)
			output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("kubectl apply said %q (%v), want a refusal that names %s", output, err, test.want)
			}
		})
	}
	longest := strings.Repeat("a", 63)
	manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\nspec: {deploymentName: %s, replicas: 10}\n",
		longest, strings.Repeat("b", 253))
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Errorf("the longest names and the most replicas are refused: %s", output)
	}
}

func TestKubectlExplainsEveryField(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"foo":                           "nginx Deployment",
		"foo.spec.deploymentName":       "name of the Deployment",
		"foo.spec.replicas":             "from 1 to 10",
		"foo.status.availableReplicas":  "are available",
		"foo.status.replicas":           "at present",
		"foo.status.selector":           "label selector",
		"foo.status.observedGeneration": "metadata.generation",
		"foo.status.conditions":         "Stalled",
	} {
		// kubectl wraps lines, so that the words may stand on two of them.
		if got := strings.Join(strings.Fields(kubectl(t, "explain", field)), " "); !strings.Contains(got, want) {
			t.Errorf("kubectl explain %s does not say %q:\n%s", field, want, got)
		}
	}
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
