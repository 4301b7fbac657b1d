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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"

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

// Not parallel: it measures times.
func TestALeaderThatIsCutOffEndsAndAnotherTakesOver(t *testing.T) {
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	proxies := map[*instance]*faults.Proxy{}
	var instances []*instance
	for i := range 2 {
		in := &instance{user: fmt.Sprintf("%s-%d", namespace, i), health: freeAddress(t)}
		proxy := startProxy(t, in.user, 0)
		in.process = startBehind(t, proxy, append(electionFlags(namespace), "-namespace", namespace, "-health-probe-bind-address", in.health)...)
		instances, proxies[in] = append(instances, in), proxy
	}
	leader, standbys := theLeader(t, instances)
	// It is cut off while it works.
	for i := range 10 {
		createFooSurely(t, namespace, fmt.Sprintf("before-%d", i))
	}
	proxies[leader].SetRules(faults.Rule{Fault: faults.Drop})
	proxies[leader].CutConnections()
	leader.wantExit(1, 20*time.Second)
	theLeader(t, standbys)
	for i := range 10 {
		wantReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("before-%d", i), 1)
	}
	for in, proxy := range proxies {
		if history.judgeLeadership(proxy.Requests()) == 0 {
			t.Errorf("%s has written nothing, so that nothing is proven", in.user)
		}
		history.judge(proxy.Requests())
		wantHealthy(t, in.log.String())
	}
}

func TestTwoRolloutsAtOnce(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	history := watchHistory(t, namespace)
	var proxies []*faults.Proxy
	var instances []*instance
	start := func() {
		proxy := startProxy(t, fmt.Sprintf("%s-%d", namespace, len(instances)), 0)
		p := startBehind(t, proxy, append(electionFlags(namespace), "-namespace", namespace)...)
		p.waitForLog("Starting Foo controller")
		instances, proxies = append(instances, &instance{process: p}), append(proxies, proxy)
	}
	start()
	start()
	theLeader(t, instances)
	const foos = 30
	go func() {
		for i := range foos {
			createFooSurely(t, namespace, fmt.Sprintf("foo-%d", i))
		}
	}()
	// Both rollouts replace both instances: what the first one starts, the second one ends, whether it leads already or not.
	for range 2 {
		for _, old := range instances[len(instances)-2:] {
			start()
			old.signal(syscall.SIGTERM)
		}
	}
	for _, old := range instances[:len(instances)-2] {
		old.wantExit(0, 20*time.Second)
	}
	for i := range foos {
		eventually(t, convergence, func() error {
			_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Get(t.Context(), fmt.Sprintf("foo-%d", i), metav1.GetOptions{})
			return err
		})
		wantReplicasWithin(t, 2*convergence, namespace, fmt.Sprintf("foo-%d", i), 1)
	}
	judged := 0
	for i, proxy := range proxies {
		judged += history.judgeLeadership(proxy.Requests())
		history.judge(proxy.Requests())
		wantHealthy(t, instances[i].log.String())
	}
	if judged < len(newFoo[:3])*foos {
		t.Errorf("%d writes were judged, want those of %d Foos", judged, foos)
	}
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

func should(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
