// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	// interferenceDuration is how long requests are counted while someone overrides what the controller writes.
	interferenceDuration = 10 * time.Second
	// maxCorrections limits the writes of a Deployment in that time, the first one included. The backoff doubles from one second.
	maxCorrections = 6
)

// mutation is a MutatingAdmissionPolicy for Deployments.
type mutation struct {
	name string
	// condition and patch are CEL expressions for the Deployments that are mutated, and for how.
	condition, patch string
}

var injectSidecar = mutation{
	"sidecar", `!object.spec.template.spec.containers.exists(c, c.name == "sidecar")`,
	`JSONPatch{op: "add", path: "/spec/template/spec/containers/0", value: Object.spec.template.spec.containers{name: "sidecar", image: "sidecar"}}`,
}

// overrides are mutations of what the controller sets.
var overrides = []struct {
	mutation
	want     []string // in the message of the condition
	duration time.Duration
}{
	{
		mutation{
			"image", `object.spec.template.spec.containers[0].image == "nginx:latest"`,
			`JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example/nginx:latest"}`,
		},
		[]string{"spec.template.spec.containers[nginx].image", `desired "nginx:latest"`, `found "mirror.example/nginx:latest"`},
		interferenceDuration,
	},
	{
		mutation{
			"controller label", `"controller" in object.metadata.?labels.orValue({})`,
			`JSONPatch{op: "remove", path: "/metadata/labels/controller"}`,
		},
		[]string{"metadata.labels.controller", "desired", "found nothing"},
		0,
	},
	{
		mutation{
			"app label", `object.metadata.?labels[?"app"].orValue("") == "nginx"`,
			`JSONPatch{op: "replace", path: "/metadata/labels/app", value: "other"}`,
		},
		[]string{"metadata.labels.app", `desired "nginx"`, `found "other"`},
		0,
	},
}

func TestOverridingAdmission(t *testing.T) {
	t.Parallel()
	for _, override := range overrides {
		t.Run(override.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			controller := startController(t, namespace, "-resync-period=1s")
			existing := createReadyFoo(t, namespace, "existing", "existing", 1)
			renamed := createReadyFoo(t, namespace, "renamed", "before", 1)
			for _, foo := range []*samplev1alpha1.Foo{existing, renamed} {
				waitForEventCount(t, foo, "Synced", 1)
			}
			before := len(stableRequestsIn(t, namespace))

			remove := installPolicy(t, namespace, override.mutation)
			kubectl(t, "patch", "-n", namespace, "foo/existing", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
			created := createFoo(t, namespace, "new", "new", 1)
			rename(t, namespace, "renamed", "after")
			begin := time.Now()
			for _, name := range []string{"existing", "new", "renamed"} {
				message := waitForStalled(t, namespace, name, "DeploymentOverridden").Message
				for _, want := range override.want {
					if !strings.Contains(message, want) {
						t.Errorf("the message of %s is %q, want it to contain %q", name, message, want)
					}
				}
				waitForEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentOverridden", message)
			}
			sleep(t, override.duration-time.Since(begin))
			checkCorrections(t, namespace, before, 3)
			waitForEventCount(t, existing, "Synced", 1)
			waitForEventCount(t, renamed, "Synced", 1)
			waitForEventCount(t, created, "Synced", 0)
			waitForDeployments(t, namespace, "after", "before", "existing", "new")

			remove()
			if override.duration > 0 { // The backoff is long by now.
				kubectl(t, "patch", "-n", namespace, "foo/existing", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
				waitForReplicas(t, namespace, "existing", 3)
				waitForEventCount(t, existing, "Synced", 2)
			} else {
				waitForReplicas(t, namespace, "existing", 2)
				waitForReplicas(t, namespace, "new", 1)
				waitForReplicas(t, namespace, "renamed", 1)
				waitForDeployments(t, namespace, "after", "existing", "new")
			}
			checkLog(t, controller.log.String())
		})
	}
}

func TestInjectedSidecar(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-resync-period=1s")
	createReadyFoo(t, namespace, "existing", "existing", 1)
	createReadyFoo(t, namespace, "renamed", "before", 1)
	installPolicy(t, namespace, injectSidecar)
	kubectl(t, "patch", "-n", namespace, "foo/existing", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
	createFoo(t, namespace, "new", "new", 1)
	rename(t, namespace, "renamed", "after")
	for name, replicas := range map[string]int32{"existing": 2, "new": 1, "renamed": 1} {
		waitForReplicas(t, namespace, name, replicas)
	}
	waitForDeployments(t, namespace, "after", "existing", "new")
	for _, name := range []string{"after", "existing", "new"} {
		if containers := getDeployment(t, namespace, name).Spec.Template.Spec.Containers; len(containers) != 2 || containers[0].Image != "sidecar" ||
			containers[1].Image != "nginx:latest" {
			t.Errorf("the containers of %s are %v, want the sidecar and nginx", name, containers)
		}
	}
	before := len(stableRequestsIn(t, namespace))
	sleep(t, 3*time.Second) // several resyncs
	if requests := stableRequestsIn(t, namespace)[before:]; len(requests) > 0 {
		t.Errorf("requests in steady state: %q", requests)
	}
	checkLog(t, controller.log.String())
}

// Two controllers without leader election that disagree about the image.
func TestTwoImages(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	// The resync is rare enough that it does not hide a correction that is late.
	first := startController(t, namespace, "-resync-period=10s")
	foo := createReadyFoo(t, namespace, "contested", "contested", 1)
	before := len(stableRequestsIn(t, namespace))
	second := startController(t, namespace, "-resync-period=10s", "-image=nginx:1.27")
	begin := time.Now()
	message := waitForStalled(t, namespace, "contested", "DeploymentOverridden").Message
	for _, want := range []string{"spec.template.spec.containers[nginx].image", `"nginx:latest"`, `"nginx:1.27"`} {
		if !strings.Contains(message, want) {
			t.Errorf("message = %q, want it to contain %q", message, want)
		}
	}
	checkReason(t, foo, 4*interferenceDuration-time.Since(begin), "DeploymentOverridden")
	if corrections := checkCorrections(t, namespace, before, 2); corrections < 6 {
		t.Errorf("got %d corrections, want more than there may be events", corrections)
	}
	// One for the new Foo, and at most two for the corrections of each instance: conflicts may delay the first correction of one until the
	// backoff of the other has ended, so that the second correction of the latter is not known to be overridden either.
	checkEventCount(t, foo, "Synced", 5)
	checkEventCount(t, foo, "DeploymentOverridden", 2)

	second.stop(10 * time.Second)
	kubectl(t, "scale", "-n", namespace, "foo/contested", "--replicas=2")
	waitForReplicas(t, namespace, "contested", 2)
	if image := getDeployment(t, namespace, "contested").Spec.Template.Spec.Containers[0].Image; image != "nginx:latest" {
		t.Errorf("image = %q, want that of the remaining controller", image)
	}
	checkLog(t, first.log.String())
	checkLog(t, second.log.String())
}

// Another controller restores its own number of replicas at once.
func TestRestoredReplicas(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-resync-period=1s")
	foo := createReadyFoo(t, namespace, "scaled", "scaled", 1)
	before := len(stableRequestsIn(t, namespace))
	stop := restoreReplicas(1).start(t, namespace, "scaled")
	kubectl(t, "scale", "-n", namespace, "foo/scaled", "--replicas=3")
	begin := time.Now()
	message := waitForStalled(t, namespace, "scaled", "DeploymentOverridden").Message
	if want := "spec.replicas: desired 3, found 1"; message != want {
		t.Errorf("message = %q, want %q", message, want)
	}
	sleep(t, interferenceDuration-time.Since(begin))
	checkCorrections(t, namespace, before, 1)
	// One for the new Foo, and at most two for the corrections: while the cache is stale, the backoff of the first one may end before a sync
	// finds out that it was undone.
	checkEventCount(t, foo, "Synced", 3)
	waitForStalled(t, namespace, "scaled", "DeploymentOverridden")
	stop()
	kubectl(t, "scale", "-n", namespace, "foo/scaled", "--replicas=2")
	waitForReplicas(t, namespace, "scaled", 2)
	checkLog(t, controller.log.String())
}

func TestRejectedReplicaSets(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=1s")
	kubectl(t, "create", "quota", "-n", namespace, "replicasets", "--hard=count/replicasets.apps=0")
	createFoo(t, namespace, "stalled", "stalled", 2)
	if message := waitForStalled(t, namespace, "stalled", "DeploymentStalled").Message; !strings.Contains(message, "exceeded quota") {
		t.Errorf("message = %q, want the reason of the quota", message)
	}
	kubectl(t, "delete", "quota", "-n", namespace, "replicasets")
	// The Deployment controller has a backoff of its own.
	kubectl(t, "annotate", "-n", namespace, "deployment/stalled", "retry=now")
	waitForReplicas(t, namespace, "stalled", 2)
}

// checkCorrections checks the requests in a namespace, but for the first ones, while a number of Foos or controllers have what they
// write overridden. It returns the number of writes of Deployments.
func checkCorrections(t *testing.T, namespace string, first, writers int) (written int) {
	t.Helper()
	all := stableRequestsIn(t, namespace)[first:]
	failed := auditedRequests(t, user, func(r cluster.Request) bool { return r.Namespace == namespace && r.Code >= 400 })
	count := func(requests []string, prefixes ...string) (sum int) {
		for _, prefix := range prefixes {
			sum += countPrefix(requests, prefix)
		}
		return sum
	}
	// During a rollout, writes may fail with a conflict.
	written = count(all, "create deployments", "patch deployments") - count(failed, "create deployments", "patch deployments")
	if limit := maxCorrections * writers; written > limit {
		t.Errorf("got %d writes of Deployments, want at most %d: %q", written, limit, all)
	}
	if limit := 8 * maxCorrections * writers; len(all) > limit {
		t.Errorf("got %d requests, want at most %d: %q", len(all), limit, all)
	}
	return written
}

// checkReason watches a Foo for a while and fails the test if the Ready condition gets another reason.
func checkReason(t *testing.T, foo *samplev1alpha1.Foo, duration time.Duration, want string) {
	t.Helper()
	watcher, err := sampleClient.SamplecontrollerV1alpha1().Foos(foo.Namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + foo.Name, TimeoutSeconds: new(int64(duration.Seconds())),
	})
	requireNoError(t, err)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		changed, ok := event.Object.(*samplev1alpha1.Foo)
		if !ok {
			t.Fatalf("the watch has failed: %v", event.Object)
		}
		if ready := meta.FindStatusCondition(changed.Status.Conditions, samplev1alpha1.ConditionReady); ready.Reason != want {
			t.Errorf("the reason is %s (%s), want %s", ready.Reason, ready.Message, want)
		}
	}
}

// checkEventCount fails the test if more than this number of events with a reason has been recorded for a Foo.
func checkEventCount(t *testing.T, foo *samplev1alpha1.Foo, reason string, limit int32) {
	t.Helper()
	events, err := listEvents(t, foo, reason)
	requireNoError(t, err)
	var count int32
	for _, event := range events {
		count += event.Count
	}
	if count > limit {
		t.Errorf("got %d %s events, want at most %d", count, reason, limit)
	}
}

// installPolicy installs a MutatingAdmissionPolicy for the Deployments of a namespace and waits until it is in force. The function
// that it returns removes it, and waits as well.
func installPolicy(t *testing.T, namespace string, m mutation) (remove func()) {
	t.Helper()
	remove = func() { expectNoError(t, removePolicy(t, m, namespace)) }
	t.Cleanup(remove)
	requireNoError(t, applyPolicy(t, m, namespace))
	return remove
}

// applyPolicy installs a MutatingAdmissionPolicy for the Deployments of namespaces and waits until it is in force.
func applyPolicy(t *testing.T, m mutation, namespaces ...string) error {
	if output, err := tryKubectl(t, policyManifest(m, namespaces), "apply", "-f", "-"); err != nil {
		return errors.New(output)
	}
	return waitForMutation(t, namespaces[0], true)
}

// removePolicy removes what applyPolicy has installed, if it has, and waits until it is no longer in force.
func removePolicy(t *testing.T, m mutation, namespaces ...string) error {
	if output, err := tryKubectl(t, policyManifest(m, namespaces), "delete", "--ignore-not-found", "-f", "-"); err != nil {
		return errors.New(output)
	}
	return waitForMutation(t, namespaces[0], false)
}

// policyManifest returns a MutatingAdmissionPolicy and its binding, named after the first namespace.
func policyManifest(m mutation, namespaces []string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingAdmissionPolicy","metadata":{"name":%[1]q},"spec":{
			"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["deployments"]}]},
			"matchConditions":[{"name":"mutated","expression":%[2]q}],
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%[3]q}}]}},
		{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":%[1]q},"spec":{
			"policyName":%[1]q,"matchResources":{"namespaceSelector":{"matchExpressions":[
				{"key":"kubernetes.io/metadata.name","operator":"In","values":["%[4]s"]}]}}}}]}`,
		namespaces[0], m.condition, "["+m.patch+"]", strings.Join(namespaces, `","`))
}

// waitForMutation waits until admission changes a new Deployment in a namespace, or leaves it alone.
func waitForMutation(t *testing.T, namespace string, want bool) error {
	ctx, cancel := cleanupContext(t)
	defer cancel()
	labels := map[string]string{"app": "nginx", "controller": "probe"}
	return poll(ctx, convergence, func() error {
		probe, err := kubeClient.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
				},
			},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		containers := probe.Spec.Template.Spec.Containers
		if got := containers[0].Image != "nginx:latest" || fmt.Sprint(probe.Labels) != fmt.Sprint(labels); got != want {
			return fmt.Errorf("a new Deployment is mutated: %v, want %v", got, want)
		}
		return nil
	})
}

// restoration is a client other than the controller that restores its own value of a field of a Deployment at once.
type restoration struct {
	isRestored func(*appsv1.Deployment) bool
	patch      string
}

func restoreReplicas(replicas int32) restoration {
	return restoration{
		func(deployment *appsv1.Deployment) bool { return *deployment.Spec.Replicas == replicas },
		fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas),
	}
}

// restoreImage does not change Deployments that were not made for a Foo.
func restoreImage(image string) restoration {
	return restoration{
		func(deployment *appsv1.Deployment) bool {
			container := deployment.Spec.Template.Spec.Containers[0]
			return container.Name != "nginx" || container.Image == image
		},
		fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":%q}]}}}}`, image),
	}
}

// start starts the client for a Deployment, which need not exist. It may be called from any goroutine.
func (r restoration) start(t *testing.T, namespace, name string) (stop func()) {
	client := kubeClient.AppsV1().Deployments(namespace)
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Errorf("watching Deployment %s/%s: %v", namespace, name, err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			deployment, ok := event.Object.(*appsv1.Deployment)
			if !ok || event.Type == watch.Deleted || r.isRestored(deployment) {
				continue
			}
			_, err := client.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(r.patch), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) && t.Context().Err() == nil {
				t.Errorf("restoring Deployment %s/%s: %v", namespace, name, err)
			}
		}
	}()
	return func() {
		watcher.Stop()
		<-done
	}
}
