// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/e2e/faults"
)

// history is every state that the Deployments and Foos of a namespace, or of all, have passed through.
type history struct {
	t         *testing.T
	namespace string
	lock      sync.Mutex
	states    map[types.UID][]metav1.Object // oldest first
	deleted   map[types.UID]bool
}

// watchHistory writes down what happens from now on.
func watchHistory(t *testing.T, namespace string) *history {
	t.Helper()
	h := &history{t: t, namespace: namespace, states: map[types.UID][]metav1.Object{}, deleted: map[types.UID]bool{}}
	deployments := kubeClient.AppsV1().Deployments(namespace)
	h.follow(func(ctx context.Context) (runtime.Object, error) { return deployments.List(ctx, metav1.ListOptions{}) }, deployments.Watch)
	foos := sampleClient.SamplecontrollerV1alpha1().Foos(namespace)
	h.follow(func(ctx context.Context) (runtime.Object, error) { return foos.List(ctx, metav1.ListOptions{}) }, foos.Watch)
	return h
}

func (h *history) follow(list func(context.Context) (runtime.Object, error), watchFrom func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	h.t.Helper()
	current, err := list(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, object := range itemsOf(h.t, current) {
		h.states[object.GetUID()] = []metav1.Object{object}
	}
	// It goes on where it was when the API server comes back.
	watcher, err := watchtools.NewRetryWatcherWithContext(h.t.Context(), current.(metav1.ListInterface).GetResourceVersion(),
		cache.ToWatcherWithContext(&cache.ListWatch{WatchFuncWithContext: watchFrom}))
	if err != nil {
		h.t.Fatal(err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(metav1.Object)
			if !ok {
				continue // An error: catchUp will not find what is missing.
			}
			h.lock.Lock()
			h.states[object.GetUID()] = append(h.states[object.GetUID()], object)
			h.deleted[object.GetUID()] = event.Type == watch.Deleted
			h.lock.Unlock()
		}
	}()
}

func itemsOf(t *testing.T, list runtime.Object) (items []metav1.Object) {
	t.Helper()
	switch list := list.(type) {
	case *appsv1.DeploymentList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	case *samplev1alpha1.FooList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	default:
		t.Fatalf("a list is a %T", list)
	}
	return items
}

// catchUp waits until everything that has happened is written down.
func (h *history) catchUp() {
	h.t.Helper()
	eventually(h.t, convergence, func() error {
		deployments, err := kubeClient.AppsV1().Deployments(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		foos, err := sampleClient.SamplecontrollerV1alpha1().Foos(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		live := map[types.UID]bool{}
		for _, object := range slices.Concat(itemsOf(h.t, deployments), itemsOf(h.t, foos)) {
			live[object.GetUID()] = true
			states := h.states[object.GetUID()]
			if len(states) == 0 || states[len(states)-1].GetResourceVersion() != object.GetResourceVersion() {
				return fmt.Errorf("the watch has not seen the newest state of %s", object.GetName())
			}
		}
		for uid, states := range h.states {
			if !live[uid] && !h.deleted[uid] {
				return fmt.Errorf("the watch has not seen the deletion of %s", states[0].GetName())
			}
		}
		return nil
	})
}

// before returns the newest state of an object that is older than a resource version, or nil.
func (h *history) before(uid types.UID, resourceVersion string) (newest metav1.Object) {
	for _, state := range h.states[uid] {
		if order, err := resourceversion.CompareResourceVersion(state.GetResourceVersion(), resourceVersion); err != nil || order >= 0 {
			break
		}
		newest = state
	}
	return newest
}

// judge fails the test if the program touched what is not a Foo's, or deleted a Deployment without having made sure, by a read of
// the Foo, that it is not the wanted one. It waits for the history of the requests.
func (h *history) judge(requests []faults.Request) {
	h.t.Helper()
	h.catchUp()
	h.lock.Lock()
	defer h.lock.Unlock()
	for i, request := range requests {
		if request.Code < 200 || request.Code > 299 {
			continue
		}
		what := fmt.Sprintf("%s %s %s/%s", request.Verb, request.Resource, request.Namespace, request.Name)
		switch request.Verb + " " + request.Resource {
		case "create deployments":
			if owner := ownership.FooOf(request.Object.(metav1.Object)); owner == nil || h.states[owner.UID] == nil {
				h.t.Errorf("%s: it has no Foo for its owner", what)
			}
		case "patch deployments":
			after := request.Object.(metav1.Object)
			before := h.before(after.GetUID(), after.GetResourceVersion())
			if owner := ownership.FooOf(after); owner == nil || before == nil || ownership.FooOf(before) == nil || ownership.FooOf(before).UID != owner.UID {
				h.t.Errorf("%s: it was not the Foo's before: %+v", what, before)
			}
		case "delete deployments":
			h.judgeDeletion(what, request, requests[:i])
		case "get foos", "get deployments", "update foos/status", "create events", "patch events", "get leases", "create leases", "update leases":
		default:
			h.t.Errorf("%s: the program has no business to do that", what)
		}
	}
}

func (h *history) judgeDeletion(what string, deletion faults.Request, before []faults.Request) {
	h.t.Helper()
	status, ok := deletion.Object.(*metav1.Status)
	if !ok || status.Details == nil || len(h.states[status.Details.UID]) == 0 {
		h.t.Errorf("%s: nothing is known of what was deleted (%+v)", what, deletion.Object)
		return
	}
	states := h.states[status.Details.UID]
	owner := ownership.FooOf(states[len(states)-1])
	if owner == nil {
		h.t.Errorf("%s: it was no Foo's", what)
		return
	}
	for _, read := range slices.Backward(before) {
		foo, ok := read.Object.(*samplev1alpha1.Foo)
		if !ok || read.Verb != "get" || foo.UID != owner.UID || read.Answered.IsZero() || read.Answered.After(deletion.Sent) {
			continue
		}
		if foo.Spec.DeploymentName == deletion.Name || foo.DeletionTimestamp != nil {
			h.t.Errorf("%s: the Foo, read just before, said %+v", what, foo)
		}
		return
	}
	h.t.Errorf("%s: the Foo was not read before", what)
}

var finished = regexp.MustCompile(`(?m)^I\d{4} (\S+) .*"Finished syncing" foo="(\S+)" duration="(\S+)"`)

// wantHealthy fails the test if a log tells of a panic, or of two syncs of one Foo at the same time.
func wantHealthy(t *testing.T, log string) {
	t.Helper()
	if strings.Contains(log, "panic") {
		t.Error("the program panicked")
	}
	ended := map[string]time.Time{}
	for _, match := range finished.FindAllStringSubmatch(log, -1) {
		end, err := time.Parse("15:04:05.000000", match[1])
		if err != nil {
			t.Fatal(err)
		}
		duration, err := time.ParseDuration(match[3])
		if err != nil {
			t.Fatal(err)
		}
		// Around midnight the clock goes back, which makes the end of one day seem later than all of the next one.
		if last := ended[match[2]]; end.Add(-duration).Before(last) && last.Sub(end) < time.Hour {
			t.Errorf("two syncs of %s at once: one began %s before the end of the other", match[2], last.Sub(end.Add(-duration)))
		}
		ended[match[2]] = end
	}
}
