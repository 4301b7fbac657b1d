// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

// immediately is how long something may take that a watch event brings about.
const immediately = time.Second

func TestWhatOthersSetInADeploymentSurvivesAndOursIsPutBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "shared", "shared", 2)
	wantReplicas(t, namespace, "shared", 2)

	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/shared")
	kubectl(t, "annotate", "-n", namespace, "deployment/shared", "note=mine")
	kubectl(t, "label", "-n", namespace, "deployment/shared", "team=a", "app=other", "controller-", "--overwrite")
	kubectl(t, "patch", "-n", namespace, "deployment/shared", "--type=strategic", "-p", `{"spec":{"minReadySeconds":1,"template":{
		"metadata":{"labels":{"extra":"label"}},
		"spec":{"tolerations":[{"key":"mine"}],"containers":[{"name":"sidecar","image":"sidecar"},{"name":"nginx","image":"apache","env":[{"name":"A","value":"b"}]}]}}}}`)
	eventually(t, convergence, func() error {
		deployment := getDeployment(t, namespace, "shared")
		pod := deployment.Spec.Template
		images := map[string]string{}
		for _, container := range pod.Spec.Containers {
			images[container.Name] = container.Image
		}
		ours := deployment.Labels["app"] == "nginx" && deployment.Labels["controller"] == "shared" &&
			pod.Labels["app"] == "nginx" && pod.Labels["controller"] == "shared" && images["nginx"] == "nginx:latest"
		theirs := deployment.Labels["team"] == "a" && deployment.Annotations["note"] == "mine" && pod.Labels["extra"] == "label" &&
			pod.Annotations["kubectl.kubernetes.io/restartedAt"] != "" && len(pod.Spec.Tolerations) == 1 &&
			images["sidecar"] == "sidecar" && deployment.Spec.MinReadySeconds == 1
		if !ours || !theirs {
			return fmt.Errorf("ours is put back: %v, theirs is left alone: %v, in %+v", ours, theirs, deployment)
		}
		return nil
	})
	wantReplicas(t, namespace, "shared", 2)
	for _, container := range getDeployment(t, namespace, "shared").Spec.Template.Spec.Containers {
		if container.Name == "nginx" && len(container.Env) != 1 {
			t.Error("the environment of the nginx container is lost")
		}
	}
}

func TestARenamedFooKeepsItsOldDeploymentUntilTheNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "renamed", "old", 2)
	wantReplicas(t, namespace, "renamed", 2)
	history := watchDeployments(t, namespace)

	rename(t, namespace, "renamed", "new")
	wantReplicas(t, namespace, "renamed", 2)
	wantOnlyDeployments(t, namespace, "new")
	wantEvent(t, getFoo(t, namespace, "renamed"), corev1.EventTypeNormal, "Pruned", `Deployment "old" deleted, because the Foo now names "new"`)
	history.wantAlwaysOneAvailable(2)
}

func TestRenamesInARowAndBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "restless", "a", 1)
	wantReplicas(t, namespace, "restless", 1)
	first := getDeployment(t, namespace, "a").UID

	// So that none of the others can take over before the Foo comes back.
	kubectl(t, "create", "quota", "-n", namespace, "full", "--hard=pods=1")
	for _, name := range []string{"b", "c", "a"} {
		rename(t, namespace, "restless", name)
	}
	kubectl(t, "delete", "-n", namespace, "quota/full")
	wantReplicas(t, namespace, "restless", 1)
	wantOnlyDeployments(t, namespace, "a")
	if got := getDeployment(t, namespace, "a").UID; got != first {
		t.Error("the Deployment of a name that the Foo came back to was replaced")
	}
	for _, name := range []string{"b", "c", "d"} {
		rename(t, namespace, "restless", name)
	}
	wantReplicas(t, namespace, "restless", 1)
	wantOnlyDeployments(t, namespace, "d")
}

func TestARenameToATakenNameKeepsTheOldDeploymentServing(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "holder", "taken", 1)
	wantReplicas(t, namespace, "holder", 1)
	createFoo(t, namespace, "mover", "free", 1)
	wantReplicas(t, namespace, "mover", 1)

	rename(t, namespace, "mover", "taken")
	wantReason(t, namespace, "mover", "ErrResourceExists")
	wantOnlyDeployments(t, namespace, "free", "taken")
	kubectl(t, "delete", "-n", namespace, "foo/holder")
	wantReplicasWithin(t, 2*convergence, namespace, "mover", 1)
	wantOnlyDeployments(t, namespace, "taken")
}

// Not parallel: it measures times.
func TestAWaitingFooGetsAFreedNameAtOnce(t *testing.T) {
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	kubectl(t, "create", "deployment", "-n", namespace, "wanted", "--image=other")
	waiting := map[types.UID]string{}
	for i := range 2 {
		name := fmt.Sprintf("waiting-%d", i)
		waiting[createFoo(t, namespace, name, "wanted", 1).UID] = name
		// After ten retries the next one is seconds away: it is not the backoff that serves them in time.
		eventually(t, convergence, func() error {
			count := 0
			for line := range strings.Lines(controller.log.String()) {
				if strings.Contains(line, `result="problem"`) && strings.Contains(line, fmt.Sprintf(`foo="%s/%s"`, namespace, name)) {
					count++
				}
			}
			if count < 10 {
				return fmt.Errorf("%d retries", count)
			}
			return nil
		})
	}

	kubectl(t, "delete", "-n", namespace, "deployment/wanted")
	var winner string
	eventually(t, immediately, func() error {
		deployment, err := findDeployment(t, namespace, "wanted")
		if err != nil {
			return err
		}
		owner := metav1.GetControllerOf(deployment)
		if owner == nil {
			return errors.New("nobody has the name yet")
		}
		winner = waiting[owner.UID]
		delete(waiting, owner.UID)
		return nil
	})
	wantReplicas(t, namespace, winner, 1)

	// It changes hands: an edit gives it to the one that still waits.
	for _, loser := range waiting {
		owner, err := json.Marshal(metav1.NewControllerRef(getFoo(t, namespace, loser), ownership.FooKind))
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, "patch", "-n", namespace, "deployment/wanted", "--type=merge", "-p",
			fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owner))
		eventually(t, immediately, func() error {
			ready := meta.FindStatusCondition(getFoo(t, namespace, loser).Status.Conditions, samplev1alpha1.ConditionReady)
			if ready.Reason == "ErrResourceExists" {
				return fmt.Errorf("%s still waits: %s", loser, ready.Message)
			}
			return nil
		})
		wantReason(t, namespace, winner, "ErrResourceExists")
	}
}

func TestAWaitingFooTakesOverFromOneThatIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "first", "wanted", 1)
	wantReplicas(t, namespace, "first", 1)
	second := createFoo(t, namespace, "second", "wanted", 2)
	wantReason(t, namespace, "second", "ErrResourceExists")
	kubectl(t, "delete", "-n", namespace, "foo/first")
	wantReplicasWithin(t, 2*convergence, namespace, "second", 2)
	if !metav1.IsControlledBy(getDeployment(t, namespace, "wanted"), second) {
		t.Error("the Deployment does not belong to the Foo that waited")
	}
}

func TestAnAdoptedDeploymentConvergesAndAnOrphanedOneIsLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "parent", "child", 2)
	wantReplicas(t, namespace, "parent", 2)

	kubectl(t, "patch", "-n", namespace, "deployment/child", "--type=merge", "-p", `{"metadata":{"ownerReferences":null},"spec":{"replicas":3}}`)
	wantReason(t, namespace, "parent", "ErrResourceExists")
	if replicas := *getDeployment(t, namespace, "child").Spec.Replicas; replicas != 3 {
		t.Errorf("the orphaned Deployment has %d replicas: it was touched", replicas)
	}

	owner, err := json.Marshal(metav1.NewControllerRef(foo, ownership.FooKind))
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "patch", "-n", namespace, "deployment/child", "--type=merge", "-p", fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owner))
	wantReplicas(t, namespace, "parent", 2)
}

func TestADeploymentThatAppearsJustBeforeItsCreationIsNotTouched(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	gate := startGate(t)
	gate.startController(t, namespace)
	createFoo(t, namespace, "slow", "taken", 1)
	creation := <-gate.arrived
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	before := getDeployment(t, namespace, "taken")
	close(creation)
	wantReason(t, namespace, "slow", "ErrResourceExists")
	if after := getDeployment(t, namespace, "taken"); after.Generation != before.Generation || len(after.OwnerReferences) > 0 {
		t.Errorf("the Deployment of someone else was changed: %+v", after)
	}
	if countPrefix(requestsOf(t, namespace), "get deployments") == 0 {
		t.Error("the conflict was not resolved by a live read")
	}
}

func TestOrphaningDeletionLeavesTheDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "leaving", "staying", 1)
	wantReplicas(t, namespace, "leaving", 1)
	uid := getDeployment(t, namespace, "staying").UID

	kubectl(t, "delete", "-n", namespace, "foo/leaving", "--cascade=orphan", "--timeout=60s")
	deployment := getDeployment(t, namespace, "staying")
	if deployment.UID != uid || len(deployment.OwnerReferences) > 0 || deployment.DeletionTimestamp != nil {
		t.Errorf("the Deployment was not just orphaned: %+v", deployment.ObjectMeta)
	}
}

func TestARecreatedFooDoesNotTakeTheOldOnesDeploymentForItsOwn(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	createFoo(t, namespace, "phoenix", "ashes", 1)
	wantReplicas(t, namespace, "phoenix", 1)
	oldDeployment := getDeployment(t, namespace, "ashes").UID
	oldFoo := getFoo(t, namespace, "phoenix").UID

	kubectl(t, "delete", "-n", namespace, "foo/phoenix", "--wait=false")
	created := createFoo(t, namespace, "phoenix", "ashes", 2)
	wantReplicasWithin(t, 2*convergence, namespace, "phoenix", 2)
	deployment := getDeployment(t, namespace, "ashes")
	if created.UID == oldFoo || deployment.UID == oldDeployment || !metav1.IsControlledBy(deployment, created) {
		t.Errorf("the Deployment is %+v, want a new one of the new Foo", deployment.ObjectMeta)
	}
	controller.signal(syscall.SIGTERM)
	controller.wantExit(0, 10*time.Second)
}

func TestADeploymentThatCannotCreatePodsStallsTheFoo(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "create", "quota", "-n", namespace, "few", "--hard=pods=1")
	createFoo(t, namespace, "crowded", "crowded", 3)
	wantReason(t, namespace, "crowded", "DeploymentStalled")
	wantKstatus(t, namespace, "crowded", status.FailedStatus)
	eventually(t, convergence, func() error {
		if foo := getFoo(t, namespace, "crowded"); foo.Status.AvailableReplicas != 1 || foo.Status.Replicas != 1 {
			return fmt.Errorf("status = %+v, want one replica", foo.Status)
		}
		return nil
	})
	kubectl(t, "delete", "quota", "-n", namespace, "few")
	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/crowded") // The ReplicaSet's own backoff may be minutes.
	wantReplicas(t, namespace, "crowded", 3)
}

func TestARefusedDeploymentIsToldOnTheFooAndRetried(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "quota", "-n", namespace, "none", "--hard=count/deployments.apps=0")
	startController(t, namespace, "-resync-period=1s")
	foo := createFoo(t, namespace, "refused", "refused", 1)
	message := wantReason(t, namespace, "refused", "DeploymentRejected").Message
	if !strings.Contains(message, "exceeded quota") {
		t.Errorf("message = %q", message)
	}
	wantEvent(t, foo, corev1.EventTypeWarning, "DeploymentRejected", message)
	wantKstatus(t, namespace, "refused", status.FailedStatus)

	// Backoff, not a hot loop, and not the resync: the n-th retry comes 5 ms * 2^n after the one before, which
	// makes 11 in 10 s.
	started := getFoo(t, namespace, "refused").CreationTimestamp
	eventually(t, convergence, func() error {
		if time.Since(started.Time) < 6*time.Second {
			return errors.New("waiting for resyncs to come")
		}
		return nil
	})
	if attempts := countPrefix(settledRequestsOf(t, namespace), "create deployments"); attempts > 16 {
		t.Errorf("%d attempts to create the Deployment in 6 s", attempts)
	}

	kubectl(t, "delete", "quota", "-n", namespace, "none")
	wantReplicas(t, namespace, "refused", 1)
	wantKstatus(t, namespace, "refused", status.CurrentStatus)
}

// Not parallel: on a machine that is busy the kubelets take longer than the controller gathers their reports.
func TestAFooGetsToReadyWithTheFewestRequests(t *testing.T) {
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "frugal", "frugal", 1)
	wantReplicas(t, namespace, "frugal", 1)
	wantEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	requests := settledRequestsOf(t, namespace)
	for prefix, most := range map[string]int{"create deployments": 1, "update foos/status": 2, "create events": 1} {
		if got := countPrefix(requests, prefix); got == 0 || got > most {
			t.Errorf("%d requests to %s, want at most %d", got, prefix, most)
		}
	}
	if len(requests) > 4 {
		t.Errorf("requests = %q, want at most four", requests)
	}

	kubectl(t, "scale", "-n", namespace, "foo/frugal", "--replicas=3")
	wantReplicas(t, namespace, "frugal", 3)
	wantEventCount(t, foo, "Synced", 2)
	scale := settledRequestsOf(t, namespace)[len(requests):]
	for _, request := range scale {
		verbAndResource := strings.Join(strings.Fields(request)[:2], " ")
		if !slices.Contains([]string{"patch deployments", "update foos/status", "patch events"}, verbAndResource) {
			t.Errorf("request %q for a scale", request)
		}
	}
	if got := countPrefix(scale, "patch deployments"); got != 1 {
		t.Errorf("%d writes of the Deployment for one scale", got)
	}
}

func TestASteadyStateMakesNoRequests(t *testing.T) {
	t.Parallel()
	const foos = 50
	namespace := newNamespace(t)
	controller := startController(t, namespace, "-resync-period=10s")
	for i := range foos {
		name := fmt.Sprintf("idle-%d", i)
		createFoo(t, namespace, name, name, 1)
	}
	for i := range foos {
		wantReplicas(t, namespace, fmt.Sprintf("idle-%d", i), 1)
	}
	// Foos that wait for help are silent too.
	createFoo(t, namespace, "idle-waiting", "idle-0", 1)
	waiting := wantReason(t, namespace, "idle-waiting", "ErrResourceExists")
	wantEvent(t, getFoo(t, namespace, "idle-waiting"), corev1.EventTypeWarning, "ErrResourceExists", waiting.Message)
	for i := range foos {
		wantEvent(t, getFoo(t, namespace, fmt.Sprintf("idle-%d", i)), corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	}

	before, syncs := len(settledRequestsOf(t, namespace)), strings.Count(controller.log.String(), "Finished syncing")
	begun := time.Now()
	eventually(t, 2*time.Minute, func() error {
		if time.Since(begun) < 65*time.Second {
			return errors.New("65 s have not passed")
		}
		return nil
	})
	if requests := settledRequestsOf(t, namespace)[before:]; len(requests) > 0 {
		t.Errorf("requests in the steady state: %q", requests)
	}
	if resynced := strings.Count(controller.log.String(), "Finished syncing") - syncs; resynced < 5*foos {
		t.Errorf("%d syncs in 65 s: the resyncs did not happen, so that the silence proves nothing", resynced)
	}
}

func TestTheScaleSubresourceServesAnAutoscaler(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "scalable", "scalable", 2)
	wantReplicas(t, namespace, "scalable", 2)
	scale := kubectl(t, "get", "--raw", "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/"+namespace+"/foos/scalable/scale")
	var read struct {
		Spec, Status struct {
			Replicas int
			Selector string
		}
	}
	if err := json.Unmarshal([]byte(scale), &read); err != nil {
		t.Fatal(err)
	}
	if read.Spec.Replicas != 2 || read.Status.Replicas != 2 || read.Status.Selector != "app=nginx,controller=scalable" {
		t.Errorf("scale = %s", scale)
	}

	manifest := `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"scalable"},"spec":{"maxReplicas":5,
		"scaleTargetRef":{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"scalable"}}}`
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(output)
	}
	eventually(t, 2*convergence, func() error {
		autoscaler, err := kubeClient.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "scalable", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range autoscaler.Status.Conditions {
			if condition.Type == "AbleToScale" && condition.Status == corev1.ConditionTrue && condition.Reason == "SucceededGetScale" {
				return nil
			}
		}
		return fmt.Errorf("the autoscaler cannot read the scale: %v", autoscaler.Status.Conditions)
	})
}

func TestKstatusAgreesWithTheConditions(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	foo := createFoo(t, namespace, "judged", "judged", 2)
	startController(t, namespace)
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/judged", "--timeout=30s")
	wantKstatus(t, namespace, "judged", status.CurrentStatus)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	rename(t, namespace, "judged", "taken")
	wantKstatus(t, namespace, "judged", status.FailedStatus)
	rename(t, namespace, "judged", "judged")
	wantKstatus(t, namespace, "judged", status.CurrentStatus)

	description := kubectl(t, "describe", "-n", namespace, "foo/judged")
	for _, want := range []string{"Deployment Name:", "Available Replicas:", "ErrResourceExists", "Foo synced successfully", "sample-controller"} {
		if !strings.Contains(description, want) {
			t.Errorf("kubectl describe %s does not show %q:\n%s", foo.Name, want, description)
		}
	}
}

func TestOneEventTellsOfEachChange(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "chatty", "chatty", 1)
	wantReplicas(t, namespace, "chatty", 1)
	wantEventCount(t, foo, "Synced", 1)
	// More changes than the default limits of client-go's recorder let through for one object.
	changes := int32(40)
	for i := range changes {
		kubectl(t, "scale", "-n", namespace, "foo/chatty", fmt.Sprintf("--replicas=%d", 2+i%2))
		eventually(t, convergence, func() error {
			if got := getFoo(t, namespace, "chatty"); got.Status.ObservedGeneration != got.Generation {
				return errors.New("the newest generation has not been observed")
			}
			return nil
		})
	}
	wantEventCount(t, foo, "Synced", 1+changes)
}

// Not parallel: it takes the definition of Foos away from all others for a while.
func TestFoosOfALaxerDefinitionAreToldWhatIsWrong(t *testing.T) {
	namespace := newNamespace(t)
	kubectl(t, "delete", "-f", crdFile)
	t.Cleanup(func() { kubectl(t, "apply", "-f", crdFile) })
	// Like ours it is of the category all: kubectl remembers for a while what kinds there are.
	lax := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	if output, err := tryKubectl(t, lax, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	kubectl(t, "wait", "--for=condition=Established", "crd/foos.samplecontroller.k8s.io", "--timeout=30s")
	bad := map[string]string{
		"no-spec":                `"other":1`,
		"no-name":                `"spec":{"replicas":1}`,
		"empty-name":             `"spec":{"deploymentName":"","replicas":1}`,
		"illegal-name":           `"spec":{"deploymentName":"No_Such/Name","replicas":1}`,
		"numeric-name":           `"spec":{"deploymentName":5}`,
		"negative":               `"spec":{"deploymentName":"negative","replicas":-1}`,
		"replicas-string":        `"spec":{"deploymentName":"replicas-string","replicas":"3"}`,
		strings.Repeat("a", 100): `"spec":{"deploymentName":"long","replicas":1}`,
	}
	good := `"spec":{"deploymentName":"good","replicas":1}`
	for name, spec := range bad {
		storeFoo(t, namespace, name, spec)
	}
	storeFoo(t, namespace, "good", good)
	kubectl(t, "apply", "-f", crdFile)

	startController(t, namespace, "-resync-period=1s")
	wantReplicas(t, namespace, "good", 1)
	for name := range bad {
		rejected := wantReason(t, namespace, name, "DeploymentRejected")
		wantEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentRejected", rejected.Message)
	}
	wantOnlyDeployments(t, namespace, "good")

	// Corrected, it is served at once.
	kubectl(t, "patch", "-n", namespace, "foo/replicas-string", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
	wantReplicas(t, namespace, "replicas-string", 3)
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

func countPrefix(requests []string, prefix string) (count int) {
	for _, request := range requests {
		if strings.HasPrefix(request, prefix+" ") {
			count++
		}
	}
	return count
}

// deploymentHistory is what a watch has seen of the Deployments of a namespace.
type deploymentHistory struct {
	t      *testing.T
	lock   sync.Mutex
	states []map[string]int32 // Available replicas by name.
}

// watchDeployments records every state that the Deployments of a namespace, taken together, pass through from now on.
func watchDeployments(t *testing.T, namespace string) *deploymentHistory {
	t.Helper()
	client := kubeClient.AppsV1().Deployments(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current := map[string]int32{}
	for _, deployment := range list.Items {
		current[deployment.Name] = deployment.Status.AvailableReplicas
	}
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	history := &deploymentHistory{t: t, states: []map[string]int32{current}}
	go func() {
		for event := range watcher.ResultChan() {
			deployment, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				return
			}
			current = maps.Clone(current)
			if event.Type == watch.Deleted {
				delete(current, deployment.Name)
			} else {
				current[deployment.Name] = deployment.Status.AvailableReplicas
			}
			history.lock.Lock()
			history.states = append(history.states, current)
			history.lock.Unlock()
		}
	}()
	return history
}

// wantAlwaysOneAvailable waits until the watch has seen just one Deployment left after there were more, and fails the test
// if at any time no Deployment had so many replicas available.
func (h *deploymentHistory) wantAlwaysOneAvailable(replicas int32) {
	h.t.Helper()
	eventually(h.t, convergence, func() error {
		h.lock.Lock()
		defer h.lock.Unlock()
		if last := h.states[len(h.states)-1]; len(last) != 1 || len(h.states) < 3 {
			return fmt.Errorf("the watch has seen %v last", last)
		}
		return nil
	})
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, state := range h.states {
		if len(state) == 0 || slices.Max(slices.Collect(maps.Values(state))) < replicas {
			h.t.Errorf("at one time the available replicas were %v, want at least %d in one Deployment", state, replicas)
		}
	}
}
