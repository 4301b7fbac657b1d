// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// partialOutageDuration is how long a partial outage lasts at least.
const partialOutageDuration = 5 * time.Second

// partialOutages are the kinds of requests that the controller makes. The Foos of partialOutageActions that do without them have to be
// served all the same, by their Deployment and status or, if reports is false, by their Deployment alone.
var partialOutages = []struct {
	name      string
	verbs     []string
	resources []string
	served    []string
	reports   bool
}{
	{"create deployments", []string{"create"}, []string{"deployments"}, []string{"scaled", "drifted"}, true},
	{"patch deployments", []string{"patch"}, []string{"deployments"}, []string{"new", "renamed"}, true},
	{"delete deployments", []string{"delete"}, []string{"deployments"}, []string{"new", "scaled", "drifted"}, true},
	{"get deployments", []string{"get"}, []string{"deployments"}, []string{"new", "scaled", "drifted", "renamed"}, true},
	{"get foos", []string{"get"}, []string{"foos"}, []string{"new", "scaled", "drifted"}, true},
	{"update foos/status", []string{"update"}, []string{"foos/status"}, []string{"new", "scaled", "drifted", "renamed"}, false},
	{"events", []string{"create", "patch"}, []string{"events"}, []string{"new", "scaled", "drifted", "renamed"}, true},
	{"list and watch foos", []string{"list", "watch"}, []string{"foos"}, []string{"drifted"}, false},
	{"list and watch deployments", []string{"list", "watch"}, []string{"deployments"}, []string{"new", "scaled"}, false},
	{"leases", nil, []string{"leases"}, []string{"new", "scaled", "drifted", "renamed"}, true},
}

// partialOutageReplicas are the replicas of the Foos after the actions of TestPartialOutages.
var partialOutageReplicas = map[string]int32{"new": 1, "scaled": 2, "drifted": 1, "renamed": 1}

var partialOutageFaults = []struct {
	name  string
	fault faults.Fault
}{
	{"500", faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
	{"403", faults.Reject(http.StatusForbidden, metav1.StatusReasonForbidden)},
	{"connection cut", faults.DropRequest},
}

// TestPartialOutages lets one kind of request fail while users act.
func TestPartialOutages(t *testing.T) {
	t.Parallel()
	for _, outage := range partialOutages {
		for _, fault := range partialOutageFaults {
			runCase(t, outage.name+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				namespace := newNamespace(t)
				proxy := startProxy(t, user, 0)
				controller := startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s",
					"-leader-elect", "-leader-elect-resource-namespace", namespace,
					"-leader-elect-lease-duration=60s", "-leader-elect-renew-deadline=50s") // The leader does not exit.
				controller.waitForLog("Started workers")
				for _, name := range []string{"scaled", "drifted", "renamed", "deleted"} {
					createFoo(t, namespace, name, name, 1)
				}
				for _, name := range []string{"scaled", "drifted", "renamed", "deleted"} {
					waitForReplicas(t, namespace, name, 1)
				}
				history := watchHistory(t, namespace)

				proxy.SetRules(faults.Rule{Name: outage.name, Verbs: outage.verbs, Resources: outage.resources, Fault: fault.fault})
				proxy.CloseConnections() // so that watches begin again
				began := time.Now()
				createFoo(t, namespace, "new", "new", 1)
				patchFoo(t, namespace, "scaled", `{"spec":{"replicas":2}}`)
				rename(t, namespace, "renamed", "after")
				kubectl(t, "scale", "-n", namespace, "deployment/drifted", "--replicas=3")
				kubectl(t, "delete", "-n", namespace, "foo/deleted")
				for _, name := range outage.served {
					if outage.reports {
						waitForReplicas(t, namespace, name, partialOutageReplicas[name])
						continue
					}
					deploymentName := strings.Replace(name, "renamed", "after", 1)
					waitForAvailable(t, namespace, deploymentName, partialOutageReplicas[name])
				}
				sleep(t, partialOutageDuration-time.Since(began))
				if outage.name != "get deployments" { // Only a conflict needs them.
					eventually(t, convergence, func() error {
						if proxy.Injected()[outage.name] == 0 {
							return errors.New("no request has failed")
						}
						return nil
					})
				}
				proxy.SetRules()

				ended := time.Now()
				// Backoffs double, so that the last one is about as long as the outage. That of client-go's informers is up to twice as long.
				recoveryTime := 15*time.Second + 2*ended.Sub(began)
				for name, replicas := range partialOutageReplicas {
					waitForReplicasWithin(t, recoveryTime-time.Since(ended), namespace, name, replicas)
				}
				waitForGarbageCollection(t, recoveryTime-time.Since(ended), namespace, "renamed")
				recovered := time.Since(ended)
				waitForGarbageCollection(t, convergence+30*time.Second, namespace, "deleted")
				waitForDeployments(t, namespace, "after", "drifted", "new", "scaled")
				injected := proxy.Injected()[outage.name]
				t.Logf("%d requests failed; recovered within %s", injected, recovered)
				if limit := 100 * int(ended.Sub(began)/partialOutageDuration); injected > limit {
					t.Errorf("%d requests failed in %s, want at most %d", injected, ended.Sub(began), limit)
				}
				history.checkWrites(proxy.Requests())
				checkLog(t, controller.log.String())
			})
		}
	}
}

// Not parallel: it measures latency. A backoff that has grown while the name was taken must not delay what a later error needs.
func TestErrorAfterLongBackoff(t *testing.T) {
	namespace := newNamespace(t)
	proxy := startProxy(t, user, 0)
	controller := startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s")
	controller.waitForLog("Started workers")
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	createFoo(t, namespace, "waiting", "taken", 1)
	waitForStalled(t, namespace, "waiting", "ErrResourceExists")
	eventually(t, convergence, func() error {
		if count := strings.Count(controller.log.String(), `result="stalled"`); count < 11 {
			return fmt.Errorf("got %d attempts, want 11: the backoff is 5 s then", count)
		}
		return nil
	})
	proxy.SetRules(faults.Rule{
		Name: "500", Verbs: []string{"create"}, Resources: []string{"deployments"}, Nth: 1,
		Fault: faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	})
	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	eventually(t, watchLatency, func() error {
		deployment, err := findDeployment(t, namespace, "taken")
		if err == nil && metav1.GetControllerOf(deployment) == nil {
			err = errors.New("the Deployment has no controller")
		}
		return err
	})
	if proxy.Injected()["500"] != 1 {
		t.Error("no request failed")
	}
}

// The Foo is deleted before its first status is written, while the watch of Foos is interrupted: garbage collection deletes the
// Deployment, and the controller must not create it again and again.
func TestFooDeletedBeforeFirstStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	proxy := startProxy(t, user, 0)
	var deleted atomic.Bool
	proxy.SetRules(faults.Rule{Verbs: []string{"update"}, Resources: []string{"foos/status"}, Nth: 1, Fault: faults.During(func() {
		proxy.InterruptWatches("foos")
		err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Delete(t.Context(), "foo", metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
		deleted.Store(true)
	})})
	controller := startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s")
	controller.waitForLog("Started workers")
	createFoo(t, namespace, "foo", "first", 1)
	eventually(t, convergence, func() error {
		if !deleted.Load() {
			return errors.New("the Foo has not been deleted")
		}
		return nil
	})
	waitForGarbageCollection(t, convergence, namespace, "first")
	sleep(t, 10*time.Second)
	creates := 0
	for _, write := range writesIn(proxy.Requests()) {
		if strings.HasPrefix(write, "create deployments") {
			creates++
		}
	}
	if creates > 2 {
		t.Errorf("the Deployment was created %d times, want at most twice", creates)
	}
	proxy.ResumeWatches(false)
	waitForGarbageCollection(t, convergence, namespace, "first")
	createReadyFoo(t, namespace, "later", "later", 1)
	checkLog(t, controller.log.String())
}

// A prune that fails does not keep the status from being written.
func TestFailedPruneIsReported(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faults.Fault{
		"500": faults.Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		"409": faults.Reject(http.StatusConflict, metav1.StatusReasonConflict),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			proxy := startProxy(t, user, 0)
			startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s").waitForLog("Started workers")
			createReadyFoo(t, namespace, "foo", "first", 1)
			proxy.SetRules(faults.Rule{Verbs: []string{"delete"}, Resources: []string{"deployments"}, Fault: fault})
			rename(t, namespace, "foo", "second")
			waitForReplicas(t, namespace, "foo", 1)
			patchFoo(t, namespace, "foo", `{"spec":{"replicas":2}}`)
			waitForReplicas(t, namespace, "foo", 2)
			waitForDeployments(t, namespace, "first", "second")
			proxy.SetRules()
			waitForDeployments(t, namespace, "second")
		})
	}
}

// The message of an admission plugin or webhook can be longer than that of a condition.
func TestLongRejection(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	proxy := startProxy(t, user, 0)
	startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s").waitForLog("Started workers")
	message := "denied: " + strings.Repeat("reason ", 6000)
	proxy.SetRules(faults.Rule{
		Verbs: []string{"create"}, Resources: []string{"deployments"},
		Fault: faults.RejectWithMessage(http.StatusForbidden, metav1.StatusReasonForbidden, message),
	})
	foo := createFoo(t, namespace, "rejected", "rejected", 1)
	got := waitForStalled(t, namespace, "rejected", "DeploymentRejected").Message
	if !strings.HasPrefix(got, "denied: ") || len(got) > 32768 || len(got) < 32000 {
		t.Errorf("the message has %d characters and begins with %.50q, want the beginning of that of the API server", len(got), got)
	}
	eventually(t, convergence, func() error {
		events, err := listEvents(t, foo, "DeploymentRejected")
		if err == nil && (len(events) == 0 || events[0].Type != corev1.EventTypeWarning) {
			err = errors.New("no Warning event has arrived")
		}
		return err
	})
	proxy.SetRules()
	patchFoo(t, namespace, "rejected", `{"spec":{"replicas":2}}`)
	waitForReplicas(t, namespace, "rejected", 2)
}
