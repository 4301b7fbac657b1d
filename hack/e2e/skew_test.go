// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// olderCRDs are the CRDs of the classic sample-controller. Their category is that of the generated CRD, because kubectl caches discovery.
var olderCRDs = []struct {
	name, manifest string
	// storesAvailableReplicas is whether that part of the status can be written.
	storesAvailableReplicas bool
}{
	{"without status subresource", olderCRD(`{}`, `{"type":"object","properties":{"deploymentName":{"type":"string"},
		"replicas":{"type":"integer","minimum":1,"maximum":10}}}`), false},
	{"with availableReplicas alone", olderCRD(`{"status":{}}`, `{"type":"object","properties":{"deploymentName":{"type":"string"},
		"replicas":{"type":"integer","minimum":1,"maximum":10}}}`), true},
}

func olderCRD(subresources, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":%s,"schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"spec":%s,"status":{"type":"object","properties":{"availableReplicas":{"type":"integer"}}}}}}}]}}`, subresources, spec)
}

// olderCRDMessage is logged once when a status is not stored as it was written.
const olderCRDMessage = "is older than this controller"

// Not parallel: it replaces the CRD.
func TestOlderCRD(t *testing.T) {
	for _, crd := range olderCRDs {
		for _, running := range []bool{false, true} {
			runCase(t, fmt.Sprintf("%s, controller running before: %v", crd.name, running), func(t *testing.T) {
				namespace := newNamespace(t)
				deleteCRD(t)
				var controller *process
				if running {
					kubectl(t, "apply", "-f", crdFile)
					waitForCRD(t)
					controller = startController(t, namespace, "-resync-period=1s")
					createReadyFoo(t, namespace, "before", "before", 1)
				}
				installCRD(t, crd.manifest)
				if !running {
					controller = startController(t, namespace, "-resync-period=1s")
				}

				createFoo(t, namespace, "scaled", "scaled", 1)
				createFoo(t, namespace, "renamed", "old", 2)
				waitForAvailable(t, namespace, "scaled", 1)
				waitForAvailable(t, namespace, "old", 2)
				patchFoo(t, namespace, "scaled", `{"spec":{"replicas":3}}`)
				rename(t, namespace, "renamed", "new")
				waitForAvailable(t, namespace, "scaled", 3)
				waitForAvailable(t, namespace, "new", 2)
				want := []string{"new", "scaled"}
				if running {
					want = []string{"before", "new", "scaled"}
					patchFoo(t, namespace, "before", `{"spec":{"replicas":2}}`)
					waitForAvailable(t, namespace, "before", 2)
				}
				waitForDeployments(t, namespace, want...)
				if crd.storesAvailableReplicas {
					for name, replicas := range map[string]int32{"scaled": 3, "renamed": 2} {
						eventually(t, convergence, func() error {
							if got := getFoo(t, namespace, name).Status.AvailableReplicas; got != replicas {
								return fmt.Errorf("status.availableReplicas of %s = %d, want %d", name, got, replicas)
							}
							return nil
						})
					}
				}

				// In steady state each resync makes at most one status write for each Foo, and reads the Foo if that fails. The audit log lags behind.
				sleep(t, 2*time.Second) // The last events are recorded.
				syncs, before := strings.Count(controller.log.String(), "Finished syncing"), requestsIn(t, namespace)
				eventually(t, convergence, func() error {
					if resynced := strings.Count(controller.log.String(), "Finished syncing") - syncs; resynced < 3*len(want) {
						return fmt.Errorf("there have been %d syncs, want 3 of each Foo", resynced)
					}
					return nil
				})
				requests := requestsIn(t, namespace)[len(before):]
				statusWrites := countPrefix(requests, "update foos/status")
				resyncs := strings.Count(controller.log.String(), "Finished syncing") - syncs
				if reads := countPrefix(requests, "get foos"); statusWrites == 0 || statusWrites > resyncs+len(want) || reads+statusWrites < len(requests) {
					t.Errorf("got %d status writes in %d resyncs, and in all %q", statusWrites, resyncs, requests)
				}
				checkReportedOnce(t, controller)

				// After a restart it is noticed again, and no Deployment is written.
				controller.stop(10 * time.Second)
				before = stableRequestsIn(t, namespace)
				controller = startController(t, namespace, "-resync-period=1s")
				controller.waitForLog(olderCRDMessage)
				sleep(t, 2*time.Second)
				for _, request := range requestsIn(t, namespace)[len(before):] {
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
				checkLog(t, controller.log.String())
				controller.stop(10 * time.Second)
				kubectl(t, "delete", "-n", namespace, "foos", "--all")
			})
		}
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

func patchFoo(t *testing.T, namespace, name, patch string) {
	t.Helper()
	kubectl(t, "patch", "-n", namespace, "foo/"+name, "--type=merge", "-p", patch)
}

// waitForAvailable waits until a Deployment has this number of desired and available replicas.
func waitForAvailable(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	eventually(t, convergence, func() error {
		deployment, err := findDeployment(t, namespace, name)
		if err != nil {
			return err
		}
		if status := deployment.Status; *deployment.Spec.Replicas != replicas || status.AvailableReplicas != replicas || status.Replicas != replicas {
			return fmt.Errorf("the Deployment has %d of %d replicas available, want %d", status.AvailableReplicas, *deployment.Spec.Replicas, replicas)
		}
		return nil
	})
}

// olderServers are servers, or proxies in front of them, that lack what client-go uses by default.
var olderServers = []struct {
	name string
	// uses reports whether a request uses what is lacking.
	uses  func(*http.Request) bool
	fault faults.Fault
}{
	{"without WatchList", sendsInitialEvents, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if sendsInitialEvents(r) {
			faults.Reject(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}},
	{"without protobuf in responses", acceptsProtobuf, answerInJSON},
	{"without protobuf", acceptsProtobuf, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case isProtobuf(r.Header.Get("Content-Type")):
			faults.Reject(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)(w, r, next)
		case acceptsProtobuf(r) && !strings.Contains(r.Header.Get("Accept"), "json"):
			faults.Reject(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable)(w, r, next)
		default:
			answerInJSON(w, r, next)
		}
	}},
}

func sendsInitialEvents(r *http.Request) bool {
	return r.URL.Query().Get("sendInitialEvents") == "true"
}

func isProtobuf(contentType string) bool { return strings.Contains(contentType, "protobuf") }

func acceptsProtobuf(r *http.Request) bool { return isProtobuf(r.Header.Get("Accept")) }

func answerInJSON(w http.ResponseWriter, r *http.Request, next http.Handler) {
	r.Header.Set("Accept", "application/json")
	next.ServeHTTP(w, r)
}

func TestOlderServer(t *testing.T) {
	t.Parallel()
	for _, server := range olderServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			history := watchHistory(t, namespace)
			proxy := startProxy(t, user, 0)
			var uses atomic.Int32
			proxy.SetRules(faults.Rule{Fault: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if server.uses(r) {
					uses.Add(1)
				}
				server.fault(w, r, next)
			}})
			controller := startBehindProxy(t, proxy, append(electionFlags(namespace), "-namespace", namespace, "-resync-period=1s")...)
			foo := createReadyFoo(t, namespace, "foo", "first", 1)
			waitForEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
			patchFoo(t, namespace, "foo", `{"spec":{"replicas":2}}`)
			waitForReplicas(t, namespace, "foo", 2)
			rename(t, namespace, "foo", "second")
			waitForReplicas(t, namespace, "foo", 2)
			waitForDeployments(t, namespace, "second")
			kubectl(t, "delete", "-n", namespace, "deployment/second")
			waitForReplicas(t, namespace, "foo", 2)
			waitForEventCount(t, foo, "Pruned", 1)

			waitUntilStable(t, 3*time.Second, func() []faults.Request { return withoutLeases(proxy.Requests()) })
			if uses.Load() == 0 {
				t.Error("no request used what the server lacks")
			}
			if line := firstLineWith(controller.log.String(), `result="error"`); line != "" {
				t.Errorf("a sync failed: %s", line)
			}
			history.checkWrites(proxy.Requests())
			checkLog(t, controller.log.String())
		})
	}
}

// Foos and Deployments of the classic sample-controller are taken over: without a change of the Pod template no Pod is restarted.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	const name = "classic"
	foo := createFoo(t, namespace, name, name, 2)
	labels := map[string]string{"app": "nginx", "controller": name}
	_, err := kubeClient.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "sample-controller"})
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
