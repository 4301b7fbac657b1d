// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

// stableWrites returns the writes of the controller once there have been no more for a second.
func (in *instance) stableWrites(t *testing.T) []string {
	t.Helper()
	return waitUntilStable(t, time.Second, func() []string { return writesIn(in.proxy.Requests()) })
}

// verify waits until the Foo is ready and its Deployment is the only one, and checks that this is stable, and how it was reached.
func (in *instance) verify(t *testing.T, deploymentName string, replicas int32, withoutFaults int) {
	t.Helper()
	var writes []string
	for range 2 {
		waitForReplicas(t, in.namespace, "foo", replicas)
		waitForDeployments(t, in.namespace, deploymentName)
		writes = in.stableWrites(t)
	}
	checkWriteCount(t, writes, withoutFaults)
}

// newFooWrites and renameWrites are how many writes there are without faults: of the Deployment, the status, and events.
const (
	newFooWrites = 1 + 2 + 1
	renameWrites = 2 + 2 + 2
)

// checkWriteCount fails the test if there were more than twice as many writes as without faults, plus two.
func checkWriteCount(t *testing.T, writes []string, withoutFaults int) {
	t.Helper()
	if limit := 2*withoutFaults + 2; len(writes) > limit {
		t.Errorf("got %d writes, want at most %d: %q", len(writes), limit, writes)
	}
}

// TestWriteFaults shows that the API server, and a process that is killed, behave as in hack/simulation, which has faults in all writes.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	always := func(fault faults.Fault) func(*instance) faults.Fault {
		return func(*instance) faults.Fault { return fault }
	}
	const scale = `{"spec":{"replicas":2}}`
	for _, test := range []struct {
		name, verb, resource string
		fault                func(in *instance) faults.Fault
		change               string // of a Foo that is ready. Without one, the fault hits a new Foo.
		deploymentName       string
		replicas             int32
		writes               int // without the fault
	}{
		{"killed after creation", "create", "deployments", func(in *instance) faults.Fault { return faults.After(in.restart) }, "", "first", 1, newFooWrites},
		{"response to creation lost", "create", "deployments", always(faults.DropResponse), "", "first", 1, newFooWrites},
		{"response to status update lost", "update", "foos/status", always(faults.DropResponse), "", "first", 1, newFooWrites},
		{"patch applied, failed with 504", "patch", "deployments",
			always(faults.FailAfterApply(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)), scale, "first", 2, newFooWrites},
		{"patch rejected with 429", "patch", "deployments",
			always(faults.Reject(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)), scale, "first", 2, newFooWrites},
		{"killed before prune", "delete", "deployments",
			func(in *instance) faults.Fault { return faults.Before(in.restart) }, `{"spec":{"deploymentName":"second"}}`, "second", 1, renameWrites},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := startBehindNewProxy(t, user)
			if test.change != "" {
				createReadyFoo(t, in.namespace, "foo", "first", 1)
				in.stableWrites(t)
				in.proxy.ResetRequests()
			}
			in.proxy.SetRules(faults.Rule{
				Name: test.name, Verbs: []string{test.verb}, Resources: []string{test.resource}, Nth: 1, Fault: test.fault(in),
			})
			if test.change != "" {
				patchFoo(t, in.namespace, "foo", test.change)
			} else {
				createFoo(t, in.namespace, "foo", "first", 1)
			}
			in.verify(t, test.deploymentName, test.replicas, test.writes)
			if in.proxy.Injected()[test.name] != 1 {
				t.Error("no fault was injected")
			}
		})
	}
}

// writesIn returns the writes among the requests, each as "verb resource name".
func writesIn(requests []faults.Request) (writes []string) {
	for _, request := range requests {
		if slices.Contains(faults.Writes, request.Verb) {
			writes = append(writes, fmt.Sprintf("%s %s %s", request.Verb, request.Resource, request.Name))
		}
	}
	return writes
}

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

// newFoos is the number of Foos that are created during an outage.
const newFoos = 10

// Not parallel: the outages affect the whole cluster.
func TestOutages(t *testing.T) {
	for _, outage := range outages {
		t.Run(outage.name, func(t *testing.T) {
			in := startBehindNewProxy(t, outageUser)
			createReadyFoo(t, in.namespace, "steady", "steady", 2)
			in.stableWrites(t)
			before := len(in.proxy.Requests())

			var users sync.WaitGroup
			users.Go(func() { createNewFoos(t, in.namespace) })
			outage.begin(t)
			wait(t, time.After(outageDuration))
			outage.end(t)
			users.Wait()
			createReadyFoo(t, in.namespace, "later", "later", 1)
			waitForNewFoos(t, in.namespace)
			waitForReplicas(t, in.namespace, "steady", 2)

			in.stableWrites(t)
			succeeded := slices.DeleteFunc(in.proxy.Requests()[before:], func(request faults.Request) bool { return !request.Succeeded() })
			writes := writesIn(succeeded)
			checkWriteCount(t, writes, newFooWrites*(newFoos+1))
			for _, write := range writes {
				if strings.HasSuffix(write, " steady") {
					t.Errorf("unnecessary write: %s", write)
				}
			}
			in.stop()
		})
	}
}

// Not parallel: it deletes the CRD.
func TestCRDDeletedAndReapplied(t *testing.T) {
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	createReadyFoo(t, namespace, "new-0", "new-0", 1)
	createNewFoos(t, namespace)
	deleteCRD(t)
	controller.waitForLog("kubectl apply -f artifacts/examples/crd.yaml")
	kubectl(t, "apply", "-f", crdFile)
	createNewFoos(t, namespace)
	waitForNewFoos(t, namespace)
	controller.stop()
}

// createNewFoos creates Foos, and retries while the API server is not available. It may be called from any goroutine.
func createNewFoos(t *testing.T, namespace string) {
	for i := range newFoos {
		name := fmt.Sprintf("new-%d", i)
		err := poll(t.Context(), convergence, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Create(ctx, newFoo(name, name, 1), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil && t.Context().Err() == nil {
			t.Errorf("creating Foo %s: %v", name, err)
		}
	}
}

// waitForNewFoos waits until the new Foos are ready. The Deployments of earlier Foos have to be garbage collected first.
func waitForNewFoos(t *testing.T, namespace string) {
	t.Helper()
	for i := range newFoos {
		waitForReplicasWithin(t, 4*convergence, namespace, fmt.Sprintf("new-%d", i), 1)
	}
}

// The functions that begin and end outages do not end the test on errors: they are called from other goroutines, and an outage has to
// be ended for the tests that follow.

var kill, freeze, resume = on((*cluster.Cluster).Kill), on((*cluster.Cluster).Freeze), on((*cluster.Cluster).Resume)

func on(do func(*cluster.Cluster, cluster.Component) error) func(cluster.Component) func(*testing.T) {
	return func(component cluster.Component) func(*testing.T) {
		return func(t *testing.T) { expectNoError(t, do(local, component)) }
	}
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

func revokePermissions(t *testing.T) {
	if output, err := tryKubectl(t, "", "delete", "clusterrole/"+user, "clusterrolebinding/"+user); err != nil {
		t.Error(output)
	}
}

func restorePermissions(t *testing.T) { expectNoError(t, grantPermissions(kubeClient)) }

// cleanupContext returns a context that is not canceled at the end of the test.
func cleanupContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), 2*convergence)
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
	{"without protobuf", acceptsProtobuf, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case strings.Contains(r.Header.Get("Content-Type"), "protobuf"):
			faults.Reject(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)(w, r, next)
		case acceptsProtobuf(r) && !strings.Contains(r.Header.Get("Accept"), "json"):
			faults.Reject(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable)(w, r, next)
		default:
			r.Header.Set("Accept", "application/json")
			next.ServeHTTP(w, r)
		}
	}},
}

func sendsInitialEvents(r *http.Request) bool {
	return r.URL.Query().Get("sendInitialEvents") == "true"
}

func acceptsProtobuf(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "protobuf")
}

func TestOlderServer(t *testing.T) {
	t.Parallel()
	for _, server := range olderServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			proxy := startProxy(t, user, 0)
			var uses atomic.Int32
			proxy.SetRules(faults.Rule{Fault: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if server.uses(r) {
					uses.Add(1)
				}
				server.fault(w, r, next)
			}})
			controller := startBehindProxy(t, proxy, "-namespace", namespace, "-resync-period=1s", "-leader-elect", "-leader-elect-resource-namespace", namespace)
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
		})
	}
}
