// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

// Not parallel: it deletes the CRD.
func TestInvalidFoosOfOlderCRD(t *testing.T) {
	namespace := newNamespace(t)
	deleteCRD(t)
	lax := olderCRD(`{"status":{}}`, `"x-kubernetes-preserve-unknown-fields":true`)
	installCRD(t, lax)
	bad := map[string]string{
		"no-spec":                `"other":1`,
		"no-name":                `"spec":{"replicas":1}`,
		"empty-name":             `"spec":{"deploymentName":"","replicas":1}`,
		"illegal-name":           `"spec":{"deploymentName":"No_Such/Name","replicas":1}`,
		"negative":               `"spec":{"deploymentName":"negative","replicas":-1}`,
		strings.Repeat("a", 100): `"spec":{"deploymentName":"long","replicas":1}`,
		strings.Repeat("b", 240): `"spec":{"deploymentName":"longer","replicas":1}`, // with a suffix too long for the name of an event
	}
	for name, spec := range bad {
		storeFoo(t, namespace, name, spec)
	}
	storeFoo(t, namespace, "good", `"spec":{"deploymentName":"good","replicas":1}`)
	kubectl(t, "apply", "-f", crdFile)

	startController(t, namespace, "-resync-period=1s")
	waitForReplicas(t, namespace, "good", 1)
	for name := range bad {
		rejected := waitForStalled(t, namespace, name, "DeploymentRejected")
		waitForEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentRejected", rejected.Message)
	}
	waitForDeployments(t, namespace, "good")

	// A Foo is reconciled at once when its spec is corrected, however long its write pause is.
	kubectl(t, "patch", "-n", namespace, "foo/negative", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
	waitForReplicas(t, namespace, "negative", 3)
	kubectl(t, "delete", "-n", namespace, "foos", "--all")

	// A value of another type cannot be decoded.
	installCRD(t, lax)
	storeFoo(t, namespace, "replicas-string", `"spec":{"deploymentName":"replicas-string","replicas":"3"}`)
	kubectl(t, "apply", "-f", crdFile)
	failing := startProcess(t, "-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace, "-cache-sync-timeout=3s")
	failing.waitForExit(1)
	if last := failing.errorLine(); !strings.Contains(last, "replicas") {
		t.Errorf("the last line is %q, want the name of the field", last)
	}
	kubectl(t, "delete", "-n", namespace, "foos", "--all")
}

// olderCRD returns a CRD of the classic sample-controller. Its category is that of the generated CRD, because kubectl caches discovery.
func olderCRD(subresources, schema string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":%s,"schema":{"openAPIV3Schema":{"type":"object",%s}}}]}}`,
		subresources, schema)
}

const classicSchema = `"properties":{
	"spec":{"type":"object","properties":{"deploymentName":{"type":"string"},"replicas":{"type":"integer","minimum":1,"maximum":10}}},
	"status":{"type":"object","properties":{"availableReplicas":{"type":"integer"}}}}`

func installCRD(t *testing.T, manifest string) {
	t.Helper()
	if output, err := tryKubectl(t, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	waitForCRD(t)
}

// olderCRDMessage is logged once when a status is not stored as it was written.
const olderCRDMessage = "is older than this controller"

// The CRD is replaced by an older one while the controller runs. Then the controller is restarted, and then the CRD is updated. Not parallel.
func TestOlderCRD(t *testing.T) {
	for name, subresources := range map[string]string{"without status subresource": `{}`, "with availableReplicas alone": `{"status":{}}`} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t)
			deleteCRD(t)
			kubectl(t, "apply", "-f", crdFile)
			waitForCRD(t)
			controller := startController(t, namespace, "-resync-period=1s")
			createReadyFoo(t, namespace, "scaled", "scaled", 1)
			installCRD(t, olderCRD(subresources, classicSchema))
			createFoo(t, namespace, "renamed", "old", 2)
			waitForAvailable(t, namespace, "old", 2)
			patchFoo(t, namespace, "scaled", `{"spec":{"replicas":3}}`)
			rename(t, namespace, "renamed", "new")
			waitForAvailable(t, namespace, "scaled", 3)
			waitForAvailable(t, namespace, "new", 2)
			waitForDeployments(t, namespace, "new", "scaled")
			for name, replicas := range map[string]int32{"scaled": 3, "renamed": 2} {
				eventually(t, convergence, func() error {
					if got := getFoo(t, namespace, name).Status.AvailableReplicas; got != replicas && subresources != `{}` {
						return fmt.Errorf("status.availableReplicas of %s = %d, want %d", name, got, replicas)
					}
					return nil
				})
			}
			checkReportedOnce(t, controller)

			// After a restart it is noticed again, and no Deployment is written.
			controller.stop()
			before := stableRequestsIn(t, namespace)
			controller = startController(t, namespace, "-resync-period=1s")
			controller.waitForLog(olderCRDMessage)
			wait(t, time.After(2*time.Second))
			requests := requestsIn(t, namespace)[len(before):]
			// Each resync writes the status of both Foos once: two or three times in two seconds, and when the controller starts.
			if got := countPrefix(requests, "update foos/status"); got == 0 || got > 2*(1+3+1) {
				t.Errorf("got %d status writes in two seconds, want at most one for each Foo and resync", got)
			}
			for _, request := range requests {
				if strings.Contains(request, " deployments ") && !strings.HasPrefix(request, "list") {
					t.Errorf("unnecessary request after a restart: %s", request)
				}
			}

			kubectl(t, "apply", "-f", crdFile)
			waitForCRD(t)
			patchFoo(t, namespace, "scaled", `{"spec":{"replicas":1}}`)
			waitForReplicas(t, namespace, "scaled", 1)
			waitForReplicas(t, namespace, "renamed", 2) // by the next resync
			checkReportedOnce(t, controller)
			controller.stop()
			kubectl(t, "delete", "-n", namespace, "foos", "--all")
		})
	}
}

func checkReportedOnce(t *testing.T, controller *process) {
	t.Helper()
	if count := strings.Count(controller.log.String(), olderCRDMessage); count != 1 {
		t.Errorf("it was logged %d times that the CRD is older, want once", count)
	}
	if line := firstLineWith(controller.log.String(), olderCRDMessage); !strings.Contains(line, "kubectl apply -f artifacts/examples/crd.yaml") {
		t.Errorf("the log says %q, want the command that updates the CRD", line)
	}
}

// Foos that no controller has seen have the default of the status, whichever CRD they were stored under. Not parallel: it
// deletes the CRD.
func TestStatusDefault(t *testing.T) {
	for name, subresources := range map[string]string{
		"without status subresource": `{}`, "with status subresource": `{"status":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t)
			deleteCRD(t)
			installCRD(t, olderCRD(subresources, classicSchema))
			storeFoo(t, namespace, "unseen", `"spec":{"deploymentName":"unseen","replicas":1}`)
			storeFoo(t, namespace, "seen", `"spec":{"deploymentName":"seen","replicas":1},"status":{"availableReplicas":1}`)
			if subresources != `{}` {
				kubectl(t, "patch", "-n", namespace, "foo/seen", "--subresource=status", "--type=merge",
					"-p", `{"status":{"availableReplicas":1}}`)
			}
			kubectl(t, "apply", "-f", crdFile)
			waitForCRD(t)
			storeFoo(t, namespace, "new", `"spec":{"deploymentName":"new","replicas":1}`)
			for name, want := range map[string]samplev1alpha1.FooStatus{
				"unseen": {ObservedGeneration: -1}, "new": {ObservedGeneration: -1}, "seen": {AvailableReplicas: 1},
			} {
				eventually(t, convergence, func() error { // The API server may still serve the older CRD.
					if got := getFoo(t, namespace, name).Status; !equality.Semantic.DeepEqual(got, want) {
						return fmt.Errorf("the status of %s is %+v, want %+v", name, got, want)
					}
					return nil
				})
			}
			waitForKstatus(t, namespace, "unseen", status.InProgressStatus)
			waitForKstatus(t, namespace, "new", status.InProgressStatus)
			controller := startController(t, namespace)
			for _, name := range []string{"unseen", "new", "seen"} {
				waitForReplicas(t, namespace, name, 1)
			}
			if got := countPrefix(stableRequestsIn(t, namespace), "get foos"); got != 0 {
				t.Errorf("got %d live reads of Foos, want none before the first creation", got)
			}
			controller.stop()
			kubectl(t, "delete", "-n", namespace, "foos", "--all")
		})
	}
}

// storeFoo creates a Foo from JSON without client-side validation. It retries until the CRD is served.
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

// waitForAvailable waits until a Deployment has this number of desired and available replicas.
func waitForAvailable(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	eventually(t, convergence, func() error { return checkAvailable(t, namespace, name, replicas) })
}

// Foos and Deployments of the classic sample-controller are taken over: without a change of the Pod template no Pod is restarted.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	const name = "classic"
	foo := createFoo(t, namespace, name, name, 2)
	classic := newDeployment(name, "nginx", map[string]string{"app": "nginx", "controller": name})
	classic.Labels = nil
	classic.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)}
	classic.Spec.Replicas = new(int32(2))
	_, err := kubeClient.AppsV1().Deployments(namespace).Create(t.Context(), classic, metav1.CreateOptions{FieldManager: "sample-controller"})
	requireNoError(t, err)
	waitForAvailable(t, namespace, name, 2)
	foo = getFoo(t, namespace, name)
	foo.Status.AvailableReplicas = 2 // What the classic reports.
	_, err = sampleClient.SamplecontrollerV1alpha1().Foos(namespace).UpdateStatus(t.Context(), foo, metav1.UpdateOptions{})
	requireNoError(t, err)
	generation, before := getDeployment(t, namespace, name).Generation, podsAndReplicaSets(t, namespace)

	startController(t, namespace, "-resync-period=1s")
	waitForReplicas(t, namespace, name, 2)
	requests := stableRequestsIn(t, namespace)
	if got := countPrefix(requests, "patch deployments"); got != 1 || countPrefix(requests, "create deployments") > 0 {
		t.Errorf("requests = %q, want a single write of the Deployment, for its labels", requests)
	}
	deployment := getDeployment(t, namespace, name)
	if deployment.Generation != generation || deployment.Labels["controller"] != name {
		t.Errorf("the Deployment is %+v, want generation %d and the labels of a Foo", deployment.ObjectMeta, generation)
	}
	if after := podsAndReplicaSets(t, namespace); after != before {
		t.Errorf("the Pods and ReplicaSets are %s, want %s", after, before)
	}
}

// podsAndReplicaSets returns the identities of all Pods and ReplicaSets.
func podsAndReplicaSets(t *testing.T, namespace string) string {
	t.Helper()
	return kubectl(t, "get", "-n", namespace, "replicasets,pods", "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.uid} {.metadata.generation} {.metadata.labels.pod-template-hash}{"\n"}{end}`)
}

func countPrefix(requests []string, prefix string) (count int) {
	for _, request := range requests {
		if strings.HasPrefix(request, prefix+" ") {
			count++
		}
	}
	return count
}
