// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

// outageDuration is how long an outage lasts.
const outageDuration = 3 * time.Second

// outageUser is the prefix of the user names of controllers that lose their permissions during tests.
const outageUser = "outage"

// outages are outages of the shared cluster that the controller has to survive without a restart.
var outages = []struct {
	name       string
	begin, end func(t *testing.T)
}{
	{"API server killed", kill(cluster.APIServer), restartWithDependents(cluster.APIServer)},
	{"etcd killed", kill(cluster.Etcd), restartWithDependents(cluster.Etcd)},
	{"API server frozen", freeze(cluster.APIServer), resume(cluster.APIServer)},
	{"etcd frozen", freeze(cluster.Etcd), resume(cluster.Etcd)},
	{"permissions revoked", revokePermissions, restorePermissions},
}

// Not parallel: the outages affect the whole cluster.
func TestOutages(t *testing.T) {
	for _, outage := range outages {
		for _, load := range []int{0, 10} {
			runCase(t, fmt.Sprintf("%s with %d new Foos", outage.name, load), func(t *testing.T) {
				namespace := newNamespace(t)
				r := &scenarioRun{namespace: namespace, proxy: startProxy(t, outageUser, 0)}
				r.controller = startBehindProxy(t, r.proxy, "-namespace", namespace, "-resync-period=1s")
				r.controller.waitForLog("Started workers")
				createReadyFoo(t, namespace, "steady", "steady", 2)
				r.stableWrites(t)
				history := watchHistory(t, namespace)
				before := len(r.proxy.Requests())

				created := make(chan struct{})
				go func() {
					defer close(created)
					for i := range load {
						createFooWithRetry(t, namespace, fmt.Sprintf("new-%d", i))
					}
				}()
				outage.begin(t)
				sleep(t, outageDuration)
				outage.end(t)
				<-created
				r.probe(t)
				for i := range load {
					waitForReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("new-%d", i), 1)
				}
				waitForReplicas(t, namespace, "steady", 2)

				r.stableWrites(t)
				requests := r.proxy.Requests()[before:]
				succeeded := slices.DeleteFunc(slices.Clone(requests), func(request faults.Request) bool { return !request.Succeeded() })
				writes := writesIn(succeeded)
				checkWriteCount(t, writes, slices.Repeat(newFooWrites, load), probeWrites...)
				// The backoff doubles from 5 ms: ten attempts in 5 s, with up to three requests each.
				if failed, limit := len(requests)-len(succeeded), 30*(load+1); failed > limit {
					t.Errorf("%d requests failed, want at most %d", failed, limit)
				}
				for _, write := range writes {
					if strings.HasSuffix(write, " steady") {
						t.Errorf("unnecessary write: %s", write)
					}
				}
				history.checkWrites(r.proxy.Requests())
				checkLog(t, r.controller.log.String())
				r.controller.stop(10 * time.Second)
			})
		}
	}
}

// Not parallel: it deletes the CRD.
func TestCRDDeletedAndReapplied(t *testing.T) {
	for _, load := range []int{0, 10} {
		runCase(t, fmt.Sprintf("with %d new Foos", load), func(t *testing.T) {
			namespace := newNamespace(t)
			controller := startController(t, namespace)
			createReadyFoo(t, namespace, "foo", "first", 1)
			for i := range load {
				name := fmt.Sprintf("new-%d", i)
				createFoo(t, namespace, name, name, 1)
			}
			deleteCRD(t)
			controller.waitForLog("kubectl apply -f artifacts/examples/crd.yaml")
			kubectl(t, "apply", "-f", crdFile)
			// The Deployments of the deleted Foos have to be garbage collected first.
			createFooWithRetry(t, namespace, "foo")
			waitForReplicasWithin(t, 4*convergence, namespace, "foo", 1)
			for i := range load {
				createFooWithRetry(t, namespace, fmt.Sprintf("new-%d", i))
			}
			for i := range load {
				waitForReplicasWithin(t, 4*convergence, namespace, fmt.Sprintf("new-%d", i), 1)
			}
			checkLog(t, controller.log.String())
			controller.stop(10 * time.Second)
		})
	}
}

// The functions that begin and end outages do not end the test on errors: they are called from other goroutines, and an outage has to
// be ended for the tests that follow.

func kill(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { expectNoError(t, local.Kill(component)) }
}

func restart(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := cleanupContext(t)
		defer cancel()
		expectNoError(t, local.Restart(ctx, component))
	}
}

// restartWithDependents restarts a component and its clients, which would back off for up to a minute after several outages.
func restartWithDependents(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) {
		restart(component)(t)
		restartDependents(t)
	}
}

// restartDependents restarts the clients of the API server and waits until the controller manager works.
func restartDependents(t *testing.T) {
	t.Helper()
	for _, component := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
		restart(component)(t)
	}
	waitForControllerManager(t)
}

// waitForControllerManager waits until the controller manager creates the service account of a new namespace.
func waitForControllerManager(t *testing.T) {
	t.Helper()
	ctx, cancel := cleanupContext(t)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
	namespace, err := kubeClient.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	expectNoError(t, poll(ctx, convergence, func() error {
		_, err := kubeClient.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}))
	expectNoError(t, kubeClient.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}))
}

func freeze(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { expectNoError(t, local.Freeze(component)) }
}

func resume(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { expectNoError(t, local.Resume(component)) }
}

func revokePermissions(t *testing.T) {
	ctx, cancel := cleanupContext(t)
	defer cancel()
	expectNoError(t, kubeClient.RbacV1().ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{}))
	expectNoError(t, kubeClient.RbacV1().ClusterRoles().Delete(ctx, user, metav1.DeleteOptions{}))
}

func restorePermissions(t *testing.T) { expectNoError(t, grantPermissions(kubeClient)) }

// cleanupContext returns a context that is not canceled at the end of the test.
func cleanupContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), 2*convergence)
}
