// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// history records the states of the Deployments and Foos of a namespace. A watch misses states if the API server is restarted meanwhile, so
// that those in responses of the API server are recorded too.
type history struct {
	t         *testing.T
	namespace string
	lock      sync.Mutex
	recorded  map[types.UID][]metav1.Object
	// newest holds the resource versions of the objects that exist, as the watches know them.
	newest map[types.UID]string
}

// watchHistory starts to record a namespace.
func watchHistory(t *testing.T, namespace string) *history {
	t.Helper()
	h := &history{t: t, namespace: namespace, recorded: map[types.UID][]metav1.Object{}, newest: map[types.UID]string{}}
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, 0, kubeinformers.WithNamespace(namespace))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, 0, informers.WithNamespace(namespace))
	for _, informer := range []cache.SharedIndexInformer{
		kubeInformerFactory.Apps().V1().Deployments().Informer(), sampleInformerFactory.Samplecontroller().V1alpha1().Foos().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { h.record(object.(metav1.Object), false) },
			UpdateFunc: func(oldObject, newObject any) {
				h.record(oldObject.(metav1.Object), true) // It may have another UID.
				h.record(newObject.(metav1.Object), false)
			},
			DeleteFunc: func(object any) {
				if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = tombstone.Obj
				}
				h.record(object.(metav1.Object), true)
			},
		})
		requireNoError(t, err)
		go informer.RunWithContext(t.Context())
		if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			t.Fatal("the informer caches have not synced")
		}
	}
	return h
}

func (h *history) record(object metav1.Object, deleted bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	uid := object.GetUID()
	h.recorded[uid] = append(h.recorded[uid], object)
	if deleted {
		delete(h.newest, uid)
	} else {
		h.newest[uid] = object.GetResourceVersion()
	}
}

// addResponses records the objects in responses of the API server.
func (h *history) addResponses(requests ...faults.Request) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, request := range requests {
		if object, ok := request.Object.(metav1.Object); ok && object.GetResourceVersion() != "" {
			h.recorded[object.GetUID()] = append(h.recorded[object.GetUID()], object)
		}
	}
}

// states returns all recorded states of an object, oldest first.
func (h *history) states(uid types.UID) []metav1.Object {
	states := slices.Clone(h.recorded[uid])
	slices.SortStableFunc(states, func(a, b metav1.Object) int {
		order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
		requireNoError(h.t, err)
		return order
	})
	return states
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

// catchUp waits until the watches have delivered the current state.
func (h *history) catchUp() {
	h.t.Helper()
	eventually(h.t, convergence+relistDelay, func() error {
		foos, deployments, err := list(h.t.Context(), h.namespace)
		if err != nil {
			return err
		}
		live := map[types.UID]string{}
		for _, foo := range foos {
			live[foo.UID] = foo.ResourceVersion
		}
		for _, deployment := range deployments {
			live[deployment.UID] = deployment.ResourceVersion
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		if !maps.Equal(h.newest, live) {
			return fmt.Errorf("the watches have not delivered the current state, but %v instead of %v", h.newest, live)
		}
		return nil
	})
}

// stateBefore returns the newest recorded state of an object that is older than a resource version, or nil if there is none.
func (h *history) stateBefore(uid types.UID, resourceVersion string) (before metav1.Object) {
	for _, state := range h.states(uid) {
		if order, err := resourceversion.CompareResourceVersion(state.GetResourceVersion(), resourceVersion); err != nil || order >= 0 {
			break
		}
		before = state
	}
	return before
}

// checkWrites fails the test if the controller wrote a Deployment that is not controlled by a Foo, or deleted one without a live read
// of the Foo that names another one.
func (h *history) checkWrites(requests []faults.Request) {
	h.t.Helper()
	h.catchUp()
	h.addResponses(requests...)
	h.lock.Lock()
	defer h.lock.Unlock()
	usedReads := map[int]bool{}
	for i, request := range requests {
		if !request.Succeeded() {
			continue
		}
		what := fmt.Sprintf("%s %s %s/%s", request.Verb, request.Resource, request.Namespace, request.Name)
		switch request.Verb + " " + request.Resource {
		case "create deployments":
			if owner := controllerRef(request.Object); owner == nil || len(h.states(owner.UID)) == 0 {
				h.t.Errorf("%s: it is not controlled by a Foo", what)
			}
		case "patch deployments":
			after := request.Object.(metav1.Object)
			before := h.stateBefore(after.GetUID(), after.GetResourceVersion())
			if owner := controllerRef(after); owner == nil || before == nil || controllerRef(before) == nil || controllerRef(before).UID != owner.UID {
				h.t.Errorf("%s: it was not controlled by the Foo before: %+v", what, before)
			}
		case "delete deployments":
			h.checkDelete(what, request, requests[:i], usedReads)
		case "get foos", "get deployments", "update foos/status", "create events", "patch events", "get leases", "create leases", "update leases":
		default:
			h.t.Errorf("%s: unexpected request", what)
		}
	}
}

// controllerRef returns the controller reference of an object to a Foo, or nil.
func controllerRef(object any) *metav1.OwnerReference {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return ownership.ControllerRef(accessor)
}

// checkDelete checks a delete request against the earlier requests. Each live read of a Foo permits one deletion: usedReads holds those
// that have permitted another one.
func (h *history) checkDelete(what string, deletion faults.Request, before []faults.Request, usedReads map[int]bool) {
	h.t.Helper()
	var owner *metav1.OwnerReference
	if status, ok := deletion.Object.(*metav1.Status); ok && status.Details != nil {
		for _, state := range h.states(status.Details.UID) {
			owner = controllerRef(state)
		}
	}
	if owner == nil {
		h.t.Errorf("%s: it was not controlled by a Foo, or never recorded (%+v)", what, deletion.Object)
		return
	}
	for i, read := range slices.Backward(before) {
		foo, ok := read.Object.(*samplev1alpha1.Foo)
		if !ok || read.Verb != "get" || foo.UID != owner.UID || read.Responded.IsZero() || read.Responded.After(deletion.Sent) {
			continue
		}
		if foo.Spec.DeploymentName == deletion.Name || foo.DeletionTimestamp != nil {
			h.t.Errorf("%s: the preceding live read returned %+v", what, foo)
		}
		if usedReads[i] {
			h.t.Errorf("%s: there was no live read of the Foo since another deletion", what)
		}
		usedReads[i] = true
		return
	}
	h.t.Errorf("%s: there was no live read of the Foo", what)
}

var finishedSyncing = regexp.MustCompile(`(?m)^I\d{4} (\S+) .*"Finished syncing" foo="(\S+)" duration="(\S+)"`)

// checkLog fails the test if there was a panic, or if two syncs of a Foo overlapped.
func checkLog(t *testing.T, log string) {
	t.Helper()
	if strings.Contains(log, "panic") {
		t.Error("the log reports a panic")
	}
	ended := map[string]time.Time{}
	for _, match := range finishedSyncing.FindAllStringSubmatch(log, -1) {
		end, err := time.Parse("15:04:05.000000", match[1])
		requireNoError(t, err)
		duration, err := time.ParseDuration(match[3])
		requireNoError(t, err)
		// Timestamps have no date, so that a sync after midnight seems to be hours before the last one.
		if last := ended[match[2]]; end.Add(-duration).Before(last) && last.Sub(end) < time.Hour {
			t.Errorf("two syncs of %s overlapped by %s", match[2], last.Sub(end.Add(-duration)))
		}
		ended[match[2]] = end
	}
}
