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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/e2e/faults"
)

// outageTime is how long something is away in these tests.
const outageTime = 3 * time.Second

// stricken is how the users begin whose programs see the outages. They are refused what they may do otherwise.
const stricken = "stricken"

// outages are what the program has to survive without a restart. They strike the cluster that all tests share.
var outages = []struct {
	name       string
	begin, end func(t *testing.T)
}{
	{"the API server is killed", kill(cluster.APIServer), restartWithWatchers(cluster.APIServer)},
	{"etcd is killed", kill(cluster.Etcd), restartWithWatchers(cluster.Etcd)},
	{"the API server is frozen", freeze(cluster.APIServer), resume(cluster.APIServer)},
	{"etcd is frozen", freeze(cluster.Etcd), resume(cluster.Etcd)},
	{"the permissions are taken away", takePermissions, givePermissions},
}

// Not parallel: they strike the API server.
func TestOutagesAreSurvivedInASteadyStateAndUnderLoad(t *testing.T) {
	for _, outage := range outages {
		for _, load := range []int{0, 10} {
			t.Run(fmt.Sprintf("%s while %d Foos are new", outage.name, load), func(t *testing.T) {
				namespace := newNamespace(t)
				w := &walk{namespace: namespace, proxy: startProxy(t, stricken, 0)}
				w.program = startBehind(t, w.proxy, "-namespace", namespace, "-resync-period=1s")
				w.program.waitForLog("Started workers")
				createFoo(t, namespace, "steady", "steady", 2)
				wantReplicas(t, namespace, "steady", 2)
				w.settledWrites(t)
				before := len(w.proxy.Requests())
				history := watchHistory(t, namespace)

				loaded := make(chan struct{})
				go func() {
					defer close(loaded)
					for i := range load {
						createFooSurely(t, namespace, fmt.Sprintf("new-%d", i))
					}
				}()
				outage.begin(t)
				over := time.After(outageTime)
				<-over
				outage.end(t)
				<-loaded
				w.wantAwake(t)
				for i := range load {
					wantReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("new-%d", i), 1)
				}
				wantReplicas(t, namespace, "steady", 2)

				w.settledWrites(t)
				requests := w.proxy.Requests()[before:]
				refused := len(requests)
				requests = slices.DeleteFunc(requests, func(request faults.Request) bool { return request.Code < 200 || request.Code > 299 })
				refused -= len(requests)
				writes := writesAmong(requests)
				wantFewWrites(t, writes, slices.Repeat(newFoo, load), awakening...)
				// Backoff doubles from 5 ms, so that there are ten attempts in 5 s, of up to three requests each.
				if most := 30 * (load + 1); refused > most {
					t.Errorf("%d requests were refused or not answered, want at most %d", refused, most)
				}
				for _, write := range writes {
					if strings.HasSuffix(write, " steady") {
						t.Errorf("%s, although nothing had changed", write)
					}
				}
				history.judge(w.proxy.Requests())
				wantHealthy(t, w.program.log.String())
				w.program.signal(syscall.SIGTERM)
				w.program.wantExit(0, 10*time.Second)
			})
		}
	}
}

// Not parallel: it takes the definition of Foos away from all others for a while.
func TestFoosMayBeUndefinedForAWhile(t *testing.T) {
	for _, load := range []int{0, 10} {
		t.Run(fmt.Sprintf("while %d Foos are new", load), func(t *testing.T) {
			namespace := newNamespace(t)
			controller := startController(t, namespace)
			createFoo(t, namespace, "foo", "first", 1)
			wantReplicas(t, namespace, "foo", 1)
			for i := range load {
				name := fmt.Sprintf("new-%d", i)
				createFoo(t, namespace, name, name, 1)
			}
			kubectl(t, "delete", "-f", crdFile)
			controller.waitForLog("kubectl apply -f artifacts/examples/crd.yaml")
			kubectl(t, "apply", "-f", crdFile)
			// The same names again, for which the Deployments of the Foos that went with their definition have to go first.
			createFooSurely(t, namespace, "foo")
			wantReplicasWithin(t, 4*convergence, namespace, "foo", 1)
			for i := range load {
				createFooSurely(t, namespace, fmt.Sprintf("new-%d", i))
			}
			for i := range load {
				wantReplicasWithin(t, 4*convergence, namespace, fmt.Sprintf("new-%d", i), 1)
			}
			wantHealthy(t, controller.log.String())
			controller.signal(syscall.SIGTERM)
			controller.wantExit(0, 10*time.Second)
		})
	}
}

// What begins and ends outages does not end the test when it fails: what was begun has to be ended, for the sake of the tests
// that follow, and mishaps have a goroutine of their own.

func kill(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { should(t, local.Kill(component)) }
}

func restart(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := untilHealed(t)
		defer cancel()
		should(t, local.Restart(ctx, component))
	}
}

// restartWithWatchers restarts a component, and those that watch what it stores: after outages in a row, they may wait for a
// minute before they look again.
func restartWithWatchers(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) {
		restart(component)(t)
		restartWatchers(t)
	}
}

// restartWatchers returns when the controller manager works again.
func restartWatchers(t *testing.T) {
	t.Helper()
	for _, component := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
		restart(component)(t)
	}
	waitForControllerManager(t)
}

// waitForControllerManager returns when the controller manager works: each new namespace gets a service account from it.
func waitForControllerManager(t *testing.T) {
	t.Helper()
	ctx, cancel := untilHealed(t)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "managed-"}}
	namespace, err := kubeClient.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	should(t, poll(ctx, convergence, func() error {
		_, err := kubeClient.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}))
	should(t, kubeClient.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}))
}

func freeze(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { should(t, local.Freeze(component)) }
}

func resume(component cluster.Component) func(*testing.T) {
	return func(t *testing.T) { should(t, local.Resume(component)) }
}

func takePermissions(t *testing.T) {
	ctx, cancel := untilHealed(t)
	defer cancel()
	should(t, kubeClient.RbacV1().ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{}))
	should(t, kubeClient.RbacV1().ClusterRoles().Delete(ctx, user, metav1.DeleteOptions{}))
}

func givePermissions(t *testing.T) { should(t, grantPermissions(kubeClient)) }

// untilHealed returns a context that goes on when the test fails meanwhile, but not for ever.
func untilHealed(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), 2*convergence)
}
