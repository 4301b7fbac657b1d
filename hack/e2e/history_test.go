// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	"k8s.io/sample-controller/pkg/ownership"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// history records all states of the Deployments, Foos and Leases of a namespace. A watch misses states if the API server is restarted
// meanwhile, so that those in responses of the API server are recorded too.
type history struct {
	t         *testing.T
	namespace string
	lock      sync.Mutex
	watched   map[types.UID][]metav1.Object // oldest first
	responses map[types.UID][]metav1.Object
	deleted   map[types.UID]bool
	// seized holds the resource versions of the states of the Lease that someone other than the controllers has written.
	seized map[string]bool
	// pending holds the Foos that are not reconciled yet, and since when. convergenceTimes holds the durations of those that are.
	pending          map[types.UID]time.Time
	convergenceTimes []time.Duration
}

// watchHistory starts to record a namespace, or all if namespace is empty.
func watchHistory(t *testing.T, namespace string) *history {
	t.Helper()
	h := &history{
		t: t, namespace: namespace, watched: map[types.UID][]metav1.Object{}, responses: map[types.UID][]metav1.Object{},
		deleted: map[types.UID]bool{}, seized: map[string]bool{}, pending: map[types.UID]time.Time{},
	}
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, 0, kubeinformers.WithNamespace(namespace))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, 0, informers.WithNamespace(namespace))
	for _, informer := range []cache.SharedIndexInformer{
		kubeInformerFactory.Apps().V1().Deployments().Informer(), kubeInformerFactory.Coordination().V1().Leases().Informer(),
		sampleInformerFactory.Samplecontroller().V1alpha1().Foos().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { h.record(object.(metav1.Object), false) },
			UpdateFunc: func(oldObject, newObject any) {
				old, new := oldObject.(metav1.Object), newObject.(metav1.Object)
				if old.GetUID() != new.GetUID() {
					h.record(old, true)
				}
				h.record(new, false)
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
	h.watched[uid] = append(h.watched[uid], object)
	h.deleted[uid] = deleted
	foo, ok := object.(*samplev1alpha1.Foo)
	if !ok {
		return
	}
	since, pending := h.pending[uid]
	switch {
	case deleted:
		delete(h.pending, uid)
	case !pending && !isReconciled(foo):
		h.pending[uid] = time.Now()
	case pending && isReconciled(foo):
		h.convergenceTimes = append(h.convergenceTimes, time.Since(since))
		delete(h.pending, uid)
	}
}

// isReconciled reports whether the latest generation of a Foo is Ready or Stalled.
func isReconciled(foo *samplev1alpha1.Foo) bool {
	return foo.Status.ObservedGeneration == foo.Generation &&
		(meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionReady) ||
			meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled))
}

// addResponses records the objects in responses of the API server.
func (h *history) addResponses(requests ...faults.Request) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, request := range requests {
		if object, ok := request.Object.(metav1.Object); ok && object.GetResourceVersion() != "" {
			h.responses[object.GetUID()] = append(h.responses[object.GetUID()], object)
		}
	}
}

// addSeizure records a state of the Lease that someone other than the controllers has written.
func (h *history) addSeizure(lease *coordinationv1.Lease) {
	h.addResponses(faults.Request{Object: lease})
	h.lock.Lock()
	defer h.lock.Unlock()
	h.seized[lease.ResourceVersion] = true
}

// states returns all recorded states of an object, oldest first.
func (h *history) states(uid types.UID) []metav1.Object {
	states := slices.Concat(h.watched[uid], h.responses[uid])
	slices.SortStableFunc(states, func(a, b metav1.Object) int {
		order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
		requireNoError(h.t, err)
		return order
	})
	return states
}

// catchUp waits until the watches have delivered the current state.
func (h *history) catchUp() {
	h.t.Helper()
	eventually(h.t, convergence, func() error {
		foos, deployments, err := list(h.t.Context(), h.namespace)
		if err != nil {
			return err
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		var objects []metav1.Object
		for i := range deployments {
			objects = append(objects, &deployments[i])
		}
		for i := range foos {
			objects = append(objects, &foos[i])
		}
		live := map[types.UID]bool{}
		for _, object := range objects {
			live[object.GetUID()] = true
			states := h.watched[object.GetUID()]
			if len(states) == 0 || states[len(states)-1].GetResourceVersion() != object.GetResourceVersion() {
				return fmt.Errorf("the watch has not delivered the newest state of %s", object.GetName())
			}
		}
		for uid, states := range h.watched {
			if _, lease := states[0].(*coordinationv1.Lease); !lease && !live[uid] && !h.deleted[uid] {
				return fmt.Errorf("the watch has not delivered the deletion of %s", states[0].GetName())
			}
		}
		return nil
	})
}

// statesBefore returns the recorded states of an object that are older than a resource version, oldest first.
func (h *history) statesBefore(uid types.UID, resourceVersion string) []metav1.Object {
	states := h.states(uid)
	for i, state := range states {
		if order, err := resourceversion.CompareResourceVersion(state.GetResourceVersion(), resourceVersion); err != nil || order >= 0 {
			return states[:i]
		}
	}
	return states
}

// stateBefore returns the newest of statesBefore, or nil if there is none.
func (h *history) stateBefore(uid types.UID, resourceVersion string) metav1.Object {
	states := h.statesBefore(uid, resourceVersion)
	if len(states) == 0 {
		return nil
	}
	return states[len(states)-1]
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
	status, ok := deletion.Object.(*metav1.Status)
	if !ok || status.Details == nil || len(h.states(status.Details.UID)) == 0 {
		h.t.Errorf("%s: no state of the deleted Deployment was recorded (%+v)", what, deletion.Object)
		return
	}
	states := h.states(status.Details.UID)
	owner := controllerRef(states[len(states)-1])
	if owner == nil {
		h.t.Errorf("%s: it was not controlled by a Foo", what)
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

// checkLeadership fails the test if an instance made a write while it did not hold the Lease. It returns the number of writes that
// were checked. Writes are ordered by resource version, so that no clock is involved. An instance whose Lease was seized cannot know
// that at once: what it may still write is up to checkNoWritesAfterLoss.
func (h *history) checkLeadership(requests []faults.Request) (checked int) {
	h.t.Helper()
	h.catchUp()
	h.addResponses(requests...)
	h.lock.Lock()
	defer h.lock.Unlock()
	var identity string
	var lease types.UID
	for _, request := range requests {
		if !request.Succeeded() || !slices.Contains(faults.Writes, request.Verb) {
			continue
		}
		if renewed, ok := request.Object.(*coordinationv1.Lease); ok {
			lease = renewed.UID
			if holder := ptr.Deref(renewed.Spec.HolderIdentity, ""); holder != "" {
				identity = holder
			}
			continue
		}
		resourceVersion := h.writtenResourceVersion(request)
		if resourceVersion == "" {
			continue
		}
		checked++
		if held, loss := h.heldBefore(lease, identity, resourceVersion); !held && (loss == nil || !h.seized[loss.GetResourceVersion()]) {
			h.t.Errorf("%s %s %s/%s by %q, which had lost the Lease: %+v", request.Verb, request.Resource, request.Namespace, request.Name, identity, loss)
		}
	}
	return checked
}

// heldBefore reports whether an instance held the Lease before a resource version, and if not anymore, the state with which it lost it.
func (h *history) heldBefore(lease types.UID, identity, resourceVersion string) (held bool, loss metav1.Object) {
	for _, state := range slices.Backward(h.statesBefore(lease, resourceVersion)) {
		if holder := ptr.Deref(state.(*coordinationv1.Lease).Spec.HolderIdentity, ""); holder == identity && holder != "" {
			return loss == nil, loss
		}
		loss = state
	}
	return false, nil // It has never held it.
}

// writtenResourceVersion returns the resource version of a write, or "" if it is unknown. That of a deletion is in the watch event only.
func (h *history) writtenResourceVersion(request faults.Request) string {
	switch response := request.Object.(type) {
	case metav1.Object:
		return response.GetResourceVersion()
	case *metav1.Status:
		if response.Details == nil || !h.deleted[response.Details.UID] {
			return ""
		}
		states := h.watched[response.Details.UID]
		// If the watch missed the deletion, the informer repeats the last known state.
		if last := len(states) - 1; last > 0 && states[last].GetResourceVersion() != states[last-1].GetResourceVersion() {
			return states[last].GetResourceVersion()
		}
	}
	return ""
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
