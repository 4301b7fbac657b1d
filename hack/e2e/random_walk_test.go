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

	"k8s.io/sample-controller/hack/e2e/faults"
)

var (
	soakTime = flag.Duration("soak", 0, "how long to begin random walks; at least one is made")
	soakSeed = flag.Uint64("seed", 0, "of the first random walk; 0 chooses one")
)

const (
	// stepsOfAWalk is how many acts users do in a random walk, and stepPeriod the longest time between two.
	stepsOfAWalk = 80
	stepPeriod   = 400 * time.Millisecond
	resyncPeriod = 5 * time.Second
	// eventRetryDelay is longer than what a failed event waits until it is sent again.
	eventRetryDelay = 6 * time.Second
)

// Not parallel: it strikes the API server, and its programs serve all namespaces.
func TestRandomWalks(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64N(1e6) + 1
	}
	var without, with figures
	violations := 0
	defer func() {
		t.Logf("random walks\nwithout faults: %s\nwith faults: %s\nviolations: %d", &without, &with, violations)
	}()
	for end := time.Now().Add(*soakTime); ; seed++ {
		passed := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			var faultless, faulty figures
			t.Run("without faults", func(t *testing.T) { faultless = walkRandomly(t, seed, false) })
			t.Run("with faults", func(t *testing.T) { faulty = walkRandomly(t, seed, true) })
			without.add(faultless)
			with.add(faulty)
			if most := 2 * faultless.writes; faulty.writes > most {
				t.Errorf("%d writes with faults, want at most %d, twice those without", faulty.writes, most)
			}
		})
		if !passed {
			violations++
			t.Logf("this walk again: make soak SOAK=0 SEED=%d", seed)
		}
		if time.Now().After(end) {
			return
		}
	}
}

// walkRandomly has users act at random while two programs follow, and then go back to where they began.
func walkRandomly(t *testing.T, seed uint64, withFaults bool) figures {
	u := newUsers(t, seed)
	instances := []*restarted{startRestarted(t, u.namespaces[0], 1, seed), startRestarted(t, u.namespaces[0], 2, seed)}
	for i, foo := range u.foos {
		foo.spec = samplev1alpha1.FooSpec{DeploymentName: firstName(i % foosInANamespace), Replicas: new(int32(1 + i%3))}
		u.declare(foo)
	}
	u.wantSettled()
	first := u.state()

	var m *mishaps
	if withFaults {
		m = startMishaps(t, instances, seed)
	}
	result := figures{walks: 1, acts: map[string]int{}}
	for range stepsOfAWalk {
		act := u.act()
		result.acts[act]++
		select {
		case <-time.After(someTime(u.random, stepPeriod)):
		case <-t.Context().Done():
			return result
		}
	}
	if withFaults {
		result.faults = m.stop()
		// The garbage collector takes an owner that was replaced by one of the same name while it did not look for the old one, and
		// keeps what that has left, until it is started anew.
		restartWatchers(t)
	}
	healed := time.Now()
	u.wantSettled()
	result.healing = []time.Duration{time.Since(healed)}

	u.goHome()
	u.wantSettled()
	wantState(t, u.state(), first)
	wantSilence(t, instances)
	wantState(t, u.state(), first)

	var requests [][]faults.Request
	for _, in := range instances {
		requests = append(requests, in.proxy.Requests())
		u.history.learn(requests[len(requests)-1]...)
	}
	for i, in := range instances {
		u.history.judge(requests[i])
		u.history.judgeLeadership(requests[i])
		result.requests += len(requests[i])
		result.writes += len(writesAmong(withoutLeases(requests[i])))
		in.stop()
	}
	result.settling = u.history.settling
	return result
}

// goHome has all Foos declared as they were first, and takes away what is not theirs. They go by way of names that nobody has: two that have
// each other's name would wait for one another.
func (u *users) goHome() {
	u.t.Helper()
	for i, foo := range u.foos {
		foo.spec = samplev1alpha1.FooSpec{DeploymentName: fmt.Sprintf("third-%d", i%foosInANamespace), Replicas: new(int32(1 + i%3))}
		u.declare(foo)
	}
	u.wantSettled()
	for _, namespace := range u.namespaces {
		there, err := list(u.t.Context(), namespace)
		must(u.t, err)
		for _, deployment := range there.deployments {
			if ownership.FooOf(&deployment) == nil {
				u.deleteDeployment(namespace, deployment.Name)
			}
		}
	}
	for i, foo := range u.foos {
		u.rename(foo, firstName(i%foosInANamespace))
	}
}

// contents is what there is in a namespace.
type contents struct {
	foos        []samplev1alpha1.Foo
	deployments []appsv1.Deployment
}

func list(ctx context.Context, namespace string) (contents, error) {
	foos, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return contents{}, err
	}
	deployments, err := kubeClient.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return contents{}, err
	}
	return contents{foos.Items, deployments.Items}, nil
}

// wantSettled waits until all Foos are as declared, and each has what it wants, or says who keeps it from that.
func (u *users) wantSettled() {
	u.t.Helper()
	for _, namespace := range u.namespaces {
		eventually(u.t, 2*convergence, func() error {
			there, err := list(u.t.Context(), namespace)
			if err != nil {
				return err
			}
			return u.settled(namespace, there)
		})
	}
}

// settled returns why a namespace with these contents is not settled, or nil.
func (u *users) settled(namespace string, there contents) error {
	named, owned := map[string]*appsv1.Deployment{}, map[types.UID][]string{}
	for i := range there.deployments {
		deployment := &there.deployments[i]
		if deployment.DeletionTimestamp != nil {
			return fmt.Errorf("the Deployment %s/%s is on its way out", namespace, deployment.Name)
		}
		named[deployment.Name] = deployment
		if owner := ownership.FooOf(deployment); owner != nil {
			owned[owner.UID] = append(owned[owner.UID], deployment.Name)
		}
	}
	declared := map[string]samplev1alpha1.FooSpec{}
	for _, foo := range u.foos {
		if foo.namespace == namespace && foo.exists {
			declared[foo.name] = foo.spec
		}
	}
	got := map[string]samplev1alpha1.FooSpec{}
	for i := range there.foos {
		foo := &there.foos[i]
		got[foo.Name] = foo.Spec
		if err := settledFoo(foo, named[foo.Spec.DeploymentName], owned[foo.UID]); err != nil {
			return fmt.Errorf("%s/%s: %w: the Foo is %+v %+v, and owns %q", namespace, foo.Name, err, foo.Spec, foo.Status, owned[foo.UID])
		}
		delete(owned, foo.UID)
	}
	if !equality.Semantic.DeepEqual(got, declared) {
		return fmt.Errorf("the Foos of %s are %+v, want %+v", namespace, got, declared)
	}
	if len(owned) > 0 {
		return fmt.Errorf("%s has Deployments of Foos that are gone: %q", namespace, owned)
	}
	return nil
}

// settledFoo returns what is not settled about a Foo, for which there may be a Deployment of the wanted name.
func settledFoo(foo *samplev1alpha1.Foo, wanted *appsv1.Deployment, owned []string) error {
	if !tellsTheEnd(foo) {
		return errors.New("it does not say how it stands")
	}
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	if wanted != nil && !ownership.Controls(foo, wanted) {
		if ready.Reason != "ErrResourceExists" {
			return errors.New("it should wait for the Deployment of someone else")
		}
		return nil // It keeps what it has, more than one if it was renamed again before the first could take over.
	}
	if !slices.Equal(owned, []string{foo.Spec.DeploymentName}) {
		return errors.New("it should have the Deployment that it wants, and no other")
	}
	replicas := *wanted.Spec.Replicas
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != replicas || wanted.Spec.Template.Spec.Containers[0].Image != "nginx:latest" {
		return fmt.Errorf("its Deployment is not as it wants: %+v", wanted.Spec)
	}
	if ready.Status != metav1.ConditionTrue || foo.Status.Replicas != replicas || foo.Status.AvailableReplicas != replicas {
		return fmt.Errorf("it should be Ready with %d replicas", replicas)
	}
	return nil
}

// state describes all Foos and Deployments, but for what is different each time that they are made.
func (u *users) state() (state []string) {
	u.t.Helper()
	for i, namespace := range u.namespaces {
		there, err := list(u.t.Context(), namespace)
		must(u.t, err)
		for _, foo := range there.foos {
			for i := range foo.Status.Conditions {
				foo.Status.Conditions[i].LastTransitionTime, foo.Status.Conditions[i].ObservedGeneration = metav1.Time{}, 0
				foo.Status.Conditions[i].Message = ""
			}
			foo.Status.ObservedGeneration = 0
			state = append(state, described(u.t, i, foo.Name, foo.Labels, foo.Finalizers, foo.Spec, foo.Status))
		}
		for _, deployment := range there.deployments {
			state = append(state, described(u.t, i, deployment.Name, deployment.Labels, ownership.FooOf(&deployment).Name, deployment.Spec))
		}
	}
	return state
}

func described(t *testing.T, about ...any) string {
	t.Helper()
	text, err := json.Marshal(about)
	must(t, err)
	return string(text)
}

func wantState(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("the state is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			return
		}
	}
}

// wantSilence checks that for two resync periods the programs have nothing to ask or to say, but that the leader is there.
func wantSilence(t *testing.T, instances []*restarted) {
	t.Helper()
	said := func() (requests []faults.Request) {
		for _, in := range instances {
			requests = append(requests, withoutLeases(in.proxy.Requests())...)
		}
		return requests
	}
	var before []faults.Request
	changed := time.Now()
	eventually(t, convergence, func() error {
		if now := said(); len(now) != len(before) {
			before, changed = now, time.Now()
		}
		if since := time.Since(changed); since < eventRetryDelay {
			return fmt.Errorf("the newest of %d requests was made %s ago", len(before), since)
		}
		return nil
	})
	select {
	case <-time.After(2*resyncPeriod + time.Second):
	case <-t.Context().Done():
	}
	now := said()
	slices.SortFunc(now, func(a, b faults.Request) int { return a.Sent.Compare(b.Sent) })
	for _, request := range now[min(len(before), len(now)):] {
		t.Errorf("a request although nothing had changed: %+v", request)
	}
}

func withoutLeases(requests []faults.Request) []faults.Request {
	return slices.DeleteFunc(requests, func(request faults.Request) bool { return request.Resource == "leases" })
}

// figures are what random walks have come to.
type figures struct {
	walks, requests, writes int
	acts, faults            map[string]int
	settling, healing       []time.Duration
}

func (f *figures) add(other figures) {
	f.walks += other.walks
	f.requests += other.requests
	f.writes += other.writes
	f.acts = sum(f.acts, other.acts)
	f.faults = sum(f.faults, other.faults)
	f.settling = append(f.settling, other.settling...)
	f.healing = append(f.healing, other.healing...)
}

func sum(a, b map[string]int) map[string]int {
	total := map[string]int{}
	for _, counts := range []map[string]int{a, b} {
		for name, count := range counts {
			total[name] += count
		}
	}
	return total
}

func (f *figures) String() string {
	return fmt.Sprintf("%d walks\n  steps: %s\n  faults: %s\n  API requests: %d, of them %d writes other than of the Lease\n"+
		"  until a Foo says how it stands: %s\n  until all do after the last step and the last fault: %s",
		f.walks, counted(f.acts), counted(f.faults), f.requests, f.writes, percentiles(f.settling), percentiles(f.healing))
}

// counted returns the sum of the counts, and each of them.
func counted(counts map[string]int) string {
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
	return fmt.Sprintf("p50 %s, p99 %s, max %s (%d times)", at(50), at(99), at(100), len(times))
}
