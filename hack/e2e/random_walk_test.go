// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/cluster/faults"
)

var (
	soakTime = flag.Duration("soak", 0, "start random walks for this time; at least one")
	soakSeed = flag.Uint64("seed", 0, "seed of the first random walk; 0 is a random one")
)

const (
	// walkSteps is the number of user actions in a random walk, and stepPeriod the maximum time between two of them.
	walkSteps    = 80
	stepPeriod   = 400 * time.Millisecond
	resyncPeriod = 5 * time.Second
	// eventRetryDelay bounds the time until an event is sent again after an error.
	eventRetryDelay = 10 * time.Second
)

// Not parallel: the controllers watch all namespaces, and faults affect the whole cluster.
func TestRandomWalks(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64N(1e6) + 1
	}
	var total, totalWithFaults walkStats
	violations := 0
	defer func() {
		t.Logf("random walks\nwithout faults: %s\nwith faults: %s\nviolations: %d", &total, &totalWithFaults, violations)
	}()
	for end := time.Now().Add(*soakTime); ; seed++ {
		passed := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			var baseline, faulty walkStats
			t.Run("without faults", func(t *testing.T) { baseline = runRandomWalk(t, seed, false) })
			t.Run("with faults", func(t *testing.T) { faulty = runRandomWalk(t, seed, true) })
			total.add(baseline)
			totalWithFaults.add(faulty)
			if limit := 2 * baseline.writes; faulty.writes > limit {
				t.Errorf("got %d writes with faults, want at most %d, twice those without", faulty.writes, limit)
			}
		})
		if !passed {
			violations++
			t.Logf("repeat this walk with: make soak SOAK=0 SEED=%d", seed)
		}
		if time.Now().After(end) {
			return
		}
	}
}

// runRandomWalk performs random user actions while two controllers run, and then restores the initial state.
func runRandomWalk(t *testing.T, seed uint64, withFaults bool) walkStats {
	u := newUsers(t, seed)
	instances := []*restartingInstance{
		startRestartingInstance(t, u.namespaces[0], 1, seed), startRestartingInstance(t, u.namespaces[0], 2, seed),
	}
	for i, foo := range u.foos {
		foo.spec = samplev1alpha1.FooSpec{DeploymentName: initialName(i % foosPerNamespace), Replicas: new(int32(1 + i%3))}
		u.declare(foo)
	}
	u.waitForConvergence()
	initial := u.state()

	var injector *faultInjector
	if withFaults {
		injector = startFaultInjector(u, instances, seed)
	}
	stats := walkStats{walks: 1, actions: map[string]int{}}
	for range walkSteps {
		stats.actions[u.step()]++
		sleep(t, randomDuration(u.random, stepPeriod))
	}
	if withFaults {
		stats.faults = injector.stop()
		// If a Foo was recreated while the watch of the garbage collector was interrupted, the collector takes the new Foo for the
		// old one, and keeps the old Deployment until it is restarted.
		restartDependents(t)
	}
	recovering := time.Now()
	u.waitForConvergence()
	stats.recoveryTimes = []time.Duration{time.Since(recovering)}

	u.restoreInitialState()
	u.waitForConvergence()
	compareStates(t, u.state(), initial)
	checkNoRequests(t, instances)
	compareStates(t, u.state(), initial)

	var requests [][]faults.Request
	for _, in := range instances {
		requests = append(requests, in.proxy.Requests())
		u.history.addResponses(requests[len(requests)-1]...)
	}
	for i, in := range instances {
		u.history.checkWrites(requests[i])
		u.history.checkLeadership(requests[i])
		checkNoWritesAfterLoss(t, fmt.Sprintf("instance %d", i+1), requests[i], renewDeadline)
		stats.requests += len(requests[i])
		stats.writes += len(writesIn(withoutLeases(requests[i])))
		in.stop()
	}
	stats.convergenceTimes = u.history.convergenceTimes
	return stats
}

// restoreInitialState declares the initial Foos and deletes Deployments that no Foo controls. Foos are first renamed to unused names,
// because two Foos that have swapped their names would wait for each other.
func (u *users) restoreInitialState() {
	u.t.Helper()
	for i, foo := range u.foos {
		foo.spec = samplev1alpha1.FooSpec{DeploymentName: fmt.Sprintf("unused-%d", i%foosPerNamespace), Replicas: new(int32(1 + i%3))}
		u.declare(foo)
	}
	u.waitForConvergence()
	for _, namespace := range u.namespaces {
		_, deployments, err := list(u.t.Context(), namespace)
		requireNoError(u.t, err)
		for _, deployment := range deployments {
			if ownership.ControllerRef(&deployment) == nil {
				u.deleteDeployment(namespace, deployment.Name)
			}
		}
	}
	for i, foo := range u.foos {
		u.rename(foo, initialName(i%foosPerNamespace))
	}
}

// list returns the Foos and Deployments of a namespace.
func list(ctx context.Context, namespace string) ([]samplev1alpha1.Foo, []appsv1.Deployment, error) {
	foos, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	deployments, err := kubeClient.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	return foos.Items, deployments.Items, nil
}

// waitForConvergence waits until all Foos are as declared, and are Ready or report a name conflict.
func (u *users) waitForConvergence() {
	u.t.Helper()
	for _, namespace := range u.namespaces {
		eventually(u.t, 2*convergence, func() error {
			foos, deployments, err := list(u.t.Context(), namespace)
			if err != nil {
				return err
			}
			return u.checkNamespace(namespace, foos, deployments)
		})
	}
}

// checkNamespace returns an error unless a namespace with these Foos and Deployments is reconciled.
func (u *users) checkNamespace(namespace string, foos []samplev1alpha1.Foo, deployments []appsv1.Deployment) error {
	byName, controlled := map[string]*appsv1.Deployment{}, map[types.UID][]string{}
	for i := range deployments {
		deployment := &deployments[i]
		if deployment.DeletionTimestamp != nil {
			return fmt.Errorf("Deployment %s/%s is being deleted", namespace, deployment.Name)
		}
		byName[deployment.Name] = deployment
		if owner := ownership.ControllerRef(deployment); owner != nil {
			controlled[owner.UID] = append(controlled[owner.UID], deployment.Name)
		}
	}
	declared := map[string]samplev1alpha1.FooSpec{}
	for _, foo := range u.foos {
		if foo.namespace == namespace && foo.exists {
			declared[foo.name] = foo.spec
		}
	}
	got := map[string]samplev1alpha1.FooSpec{}
	for i := range foos {
		foo := &foos[i]
		got[foo.Name] = foo.Spec
		if err := checkFoo(foo, byName[foo.Spec.DeploymentName], controlled[foo.UID]); err != nil {
			return fmt.Errorf("Foo %s/%s %w: spec %+v, status %+v, controlled Deployments %q", namespace, foo.Name, err, foo.Spec, foo.Status, controlled[foo.UID])
		}
		delete(controlled, foo.UID)
	}
	if !equality.Semantic.DeepEqual(got, declared) {
		return fmt.Errorf("the Foos in %s are %+v, want %+v", namespace, got, declared)
	}
	if len(controlled) > 0 {
		return fmt.Errorf("namespace %s has Deployments of deleted Foos: %q", namespace, controlled)
	}
	return nil
}

// checkFoo returns an error unless a Foo is reconciled. The Deployment is the one that the Foo names, or nil.
func checkFoo(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, controlled []string) error {
	if !isReconciled(foo) {
		return errors.New("is neither Ready nor Stalled")
	}
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	if deployment != nil && !ownership.Controls(foo, deployment) {
		if ready.Reason != "ErrResourceExists" {
			return errors.New("does not report the name conflict")
		}
		return nil // It keeps its Deployments. There are several if it was renamed again before the first rename was finished.
	}
	if !slices.Equal(controlled, []string{foo.Spec.DeploymentName}) {
		return errors.New("does not control the Deployment that it names, or another one too")
	}
	replicas := *deployment.Spec.Replicas
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != replicas || deployment.Spec.Template.Spec.Containers[0].Image != "nginx:latest" {
		return fmt.Errorf("has a Deployment that differs from the desired state: %+v", deployment.Spec)
	}
	if ready.Status != metav1.ConditionTrue || foo.Status.Replicas != replicas || foo.Status.AvailableReplicas != replicas {
		return fmt.Errorf("is not Ready with %d replicas", replicas)
	}
	return nil
}

// state returns all Foos and Deployments without the fields that differ when they are recreated.
func (u *users) state() (state []string) {
	u.t.Helper()
	for i, namespace := range u.namespaces {
		foos, deployments, err := list(u.t.Context(), namespace)
		requireNoError(u.t, err)
		for _, foo := range foos {
			for i := range foo.Status.Conditions {
				foo.Status.Conditions[i].LastTransitionTime, foo.Status.Conditions[i].ObservedGeneration = metav1.Time{}, 0
				foo.Status.Conditions[i].Message = ""
			}
			foo.Status.ObservedGeneration = 0
			state = append(state, toJSON(u.t, i, foo.Name, foo.Labels, foo.Finalizers, foo.Spec, foo.Status))
		}
		for _, deployment := range deployments {
			state = append(state, toJSON(u.t, i, deployment.Name, deployment.Labels, ownership.ControllerRef(&deployment).Name, deployment.Spec))
		}
	}
	return state
}

func toJSON(t *testing.T, values ...any) string {
	t.Helper()
	text, err := json.Marshal(values)
	requireNoError(t, err)
	return string(text)
}

func compareStates(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("the state is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			return
		}
	}
}

// checkNoRequests fails the test if the controllers make requests in two resync periods of a steady state, other than for the Lease.
func checkNoRequests(t *testing.T, instances []*restartingInstance) {
	t.Helper()
	requests := func() (requests []faults.Request) {
		for _, in := range instances {
			requests = append(requests, withoutLeases(in.proxy.Requests())...)
		}
		return requests
	}
	before := len(waitUntilStable(t, eventRetryDelay, requests))
	sleep(t, 2*resyncPeriod+time.Second)
	after := requests()
	slices.SortFunc(after, func(a, b faults.Request) int { return a.Sent.Compare(b.Sent) })
	for _, request := range after[min(before, len(after)):] {
		t.Errorf("unnecessary request in steady state: %+v", request)
	}
}

func withoutLeases(requests []faults.Request) []faults.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(request faults.Request) bool { return request.Resource == "leases" })
}

// walkStats are statistics of random walks.
type walkStats struct {
	walks, requests, writes         int
	actions, faults                 map[string]int
	convergenceTimes, recoveryTimes []time.Duration
}

func (s *walkStats) add(other walkStats) {
	s.walks += other.walks
	s.requests += other.requests
	s.writes += other.writes
	s.actions = addCounts(s.actions, other.actions)
	s.faults = addCounts(s.faults, other.faults)
	s.convergenceTimes = append(s.convergenceTimes, other.convergenceTimes...)
	s.recoveryTimes = append(s.recoveryTimes, other.recoveryTimes...)
}

func addCounts(a, b map[string]int) map[string]int {
	total := map[string]int{}
	for _, counts := range []map[string]int{a, b} {
		for name, count := range counts {
			total[name] += count
		}
	}
	return total
}

func (s *walkStats) String() string {
	return fmt.Sprintf("%d walks\n  user actions: %s\n  faults: %s\n  API requests: %d, including %d writes other than to the Lease\n"+
		"  time until a Foo is Ready or Stalled: %s\n  time until all are after the last action and fault: %s",
		s.walks, formatCounts(s.actions), formatCounts(s.faults), s.requests, s.writes, percentiles(s.convergenceTimes), percentiles(s.recoveryTimes))
}

// formatCounts returns the total and each of the counts.
func formatCounts(counts map[string]int) string {
	total := 0
	var each []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		total += counts[name]
		each = append(each, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(each, ", "))
}

func percentiles(times []time.Duration) string {
	if len(times) == 0 {
		return "never"
	}
	slices.Sort(times)
	at := func(percent int) time.Duration {
		return times[(len(times)*percent+99)/100-1].Round(10 * time.Millisecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s (of %d)", at(50), at(99), at(100), len(times))
}
