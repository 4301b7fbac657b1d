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

	"k8s.io/sample-controller/hack/e2e/faults"
)

// history is every state that the Deployments, Foos and Leases of a namespace have passed through, as a watch has seen them: all,
// unless the API server was restarted meanwhile, which then knows only the newest. Others are learned from its answers.
type history struct {
	t         *testing.T
	namespace string
	lock      sync.Mutex
	seen      map[types.UID][]metav1.Object // oldest first
	learned   map[types.UID][]metav1.Object
	deleted   map[types.UID]bool
	// unsettled are the Foos whose status does not yet tell how their newest wish has ended, since when, and settling is how long
	// that took for those that it tells of.
	unsettled map[types.UID]time.Time
	settling  []time.Duration
}

// watchHistory writes down what happens from now on, in all namespaces if none is named.
func watchHistory(t *testing.T, namespace string) *history {
	t.Helper()
	h := &history{
		t: t, namespace: namespace, seen: map[types.UID][]metav1.Object{}, learned: map[types.UID][]metav1.Object{},
		deleted: map[types.UID]bool{}, unsettled: map[types.UID]time.Time{},
	}
	kubeInformerFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kubeClient, 0, kubeinformers.WithNamespace(namespace))
	sampleInformerFactory := informers.NewSharedInformerFactoryWithOptions(sampleClient, 0, informers.WithNamespace(namespace))
	for _, informer := range []cache.SharedIndexInformer{
		kubeInformerFactory.Apps().V1().Deployments().Informer(), kubeInformerFactory.Coordination().V1().Leases().Informer(),
		sampleInformerFactory.Samplecontroller().V1alpha1().Foos().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { h.note(object.(metav1.Object), false) },
			UpdateFunc: func(oldObject, newObject any) {
				old, new := oldObject.(metav1.Object), newObject.(metav1.Object)
				if old.GetUID() != new.GetUID() {
					h.note(old, true)
				}
				h.note(new, false)
			},
			DeleteFunc: func(object any) {
				if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = tombstone.Obj
				}
				h.note(object.(metav1.Object), true)
			},
		})
		must(t, err)
		go informer.RunWithContext(t.Context())
		if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			t.Fatal("nothing can be watched")
		}
	}
	return h
}

func (h *history) note(object metav1.Object, deleted bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	uid := object.GetUID()
	h.seen[uid] = append(h.seen[uid], object)
	h.deleted[uid] = deleted
	foo, ok := object.(*samplev1alpha1.Foo)
	if !ok {
		return
	}
	since, unsettled := h.unsettled[uid]
	switch {
	case deleted:
		delete(h.unsettled, uid)
	case !unsettled && !tellsTheEnd(foo):
		h.unsettled[uid] = time.Now()
	case unsettled && tellsTheEnd(foo):
		h.settling = append(h.settling, time.Since(since))
		delete(h.unsettled, uid)
	}
}

// tellsTheEnd reports whether the status of a Foo says that what it wants now is there, or why it cannot be.
func tellsTheEnd(foo *samplev1alpha1.Foo) bool {
	return foo.Status.ObservedGeneration == foo.Generation &&
		(meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionReady) ||
			meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled))
}

// learn takes note of states that the API server has answered with.
func (h *history) learn(requests ...faults.Request) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, request := range requests {
		if object, ok := request.Object.(metav1.Object); ok && object.GetResourceVersion() != "" {
			h.learned[object.GetUID()] = append(h.learned[object.GetUID()], object)
		}
	}
}

// states returns all known states of an object, oldest first.
func (h *history) states(uid types.UID) []metav1.Object {
	states := slices.Concat(h.seen[uid], h.learned[uid])
	slices.SortStableFunc(states, func(a, b metav1.Object) int {
		order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
		must(h.t, err)
		return order
	})
	return states
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
		var objects []metav1.Object
		for i := range deployments.Items {
			objects = append(objects, &deployments.Items[i])
		}
		for i := range foos.Items {
			objects = append(objects, &foos.Items[i])
		}
		live := map[types.UID]bool{}
		for _, object := range objects {
			live[object.GetUID()] = true
			states := h.seen[object.GetUID()]
			if len(states) == 0 || states[len(states)-1].GetResourceVersion() != object.GetResourceVersion() {
				return fmt.Errorf("the watch has not seen the newest state of %s", object.GetName())
			}
		}
		for uid, states := range h.seen {
			if _, lease := states[0].(*coordinationv1.Lease); !lease && !live[uid] && !h.deleted[uid] {
				return fmt.Errorf("the watch has not seen the deletion of %s", states[0].GetName())
			}
		}
		return nil
	})
}

// before returns the newest state of an object that is older than a resource version, or nil.
func (h *history) before(uid types.UID, resourceVersion string) (newest metav1.Object) {
	for _, state := range h.states(uid) {
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
	h.learn(requests...)
	h.lock.Lock()
	defer h.lock.Unlock()
	served := map[int]bool{}
	for i, request := range requests {
		if request.Code < 200 || request.Code > 299 {
			continue
		}
		what := fmt.Sprintf("%s %s %s/%s", request.Verb, request.Resource, request.Namespace, request.Name)
		switch request.Verb + " " + request.Resource {
		case "create deployments":
			if owner := ownership.FooOf(request.Object); owner == nil || len(h.states(owner.UID)) == 0 {
				h.t.Errorf("%s: it has no Foo for its owner", what)
			}
		case "patch deployments":
			after := request.Object.(metav1.Object)
			before := h.before(after.GetUID(), after.GetResourceVersion())
			if owner := ownership.FooOf(after); owner == nil || before == nil || ownership.FooOf(before) == nil || ownership.FooOf(before).UID != owner.UID {
				h.t.Errorf("%s: it was not the Foo's before: %+v", what, before)
			}
		case "delete deployments":
			h.judgeDeletion(what, request, requests[:i], served)
		case "get foos", "get deployments", "update foos/status", "create events", "patch events", "get leases", "create leases", "update leases":
		default:
			h.t.Errorf("%s: the program has no business to do that", what)
		}
	}
}

// judgeDeletion judges one deletion by the requests before it, of which those that it marks as served have let another one happen.
func (h *history) judgeDeletion(what string, deletion faults.Request, before []faults.Request, served map[int]bool) {
	h.t.Helper()
	status, ok := deletion.Object.(*metav1.Status)
	if !ok || status.Details == nil || len(h.states(status.Details.UID)) == 0 {
		h.t.Errorf("%s: nothing is known of what was deleted (%+v)", what, deletion.Object)
		return
	}
	states := h.states(status.Details.UID)
	owner := ownership.FooOf(states[len(states)-1])
	if owner == nil {
		h.t.Errorf("%s: it was no Foo's", what)
		return
	}
	for i, read := range slices.Backward(before) {
		foo, ok := read.Object.(*samplev1alpha1.Foo)
		if !ok || read.Verb != "get" || foo.UID != owner.UID || read.Answered.IsZero() || read.Answered.After(deletion.Sent) {
			continue
		}
		if foo.Spec.DeploymentName == deletion.Name || foo.DeletionTimestamp != nil {
			h.t.Errorf("%s: the Foo, read just before, said %+v", what, foo)
		}
		if served[i] {
			h.t.Errorf("%s: the Foo was not read again after another deletion", what)
		}
		served[i] = true
		return
	}
	h.t.Errorf("%s: the Foo was not read before", what)
}

// judgeLeadership fails the test if an instance, whose requests these are, wrote anything when the Lease was not its own. It
// returns how many writes were judged. The order of things is etcd's, so that no clock is needed.
func (h *history) judgeLeadership(requests []faults.Request) (judged int) {
	h.t.Helper()
	h.catchUp()
	h.learn(requests...)
	h.lock.Lock()
	defer h.lock.Unlock()
	var identity string
	var lease types.UID
	for _, request := range requests {
		if request.Code < 200 || request.Code > 299 || !slices.Contains(faults.Writes, request.Verb) {
			continue
		}
		if renewed, ok := request.Object.(*coordinationv1.Lease); ok {
			lease = renewed.UID
			if holder := ptr.Deref(renewed.Spec.HolderIdentity, ""); holder != "" {
				identity = holder
			}
			continue
		}
		resourceVersion := h.writtenAt(request)
		if resourceVersion == "" {
			continue
		}
		judged++
		before, _ := h.before(lease, resourceVersion).(*coordinationv1.Lease)
		if before == nil || ptr.Deref(before.Spec.HolderIdentity, "") != identity || identity == "" {
			h.t.Errorf("%s %s %s/%s by %q while the Lease was %+v", request.Verb, request.Resource, request.Namespace, request.Name, identity, before)
		}
	}
	return judged
}

// writtenAt returns the resource version that a write has brought about, or "" if it is not known. Only the watch tells that of a
// deletion.
func (h *history) writtenAt(request faults.Request) string {
	switch answer := request.Object.(type) {
	case metav1.Object:
		return answer.GetResourceVersion()
	case *metav1.Status:
		if answer.Details == nil || !h.deleted[answer.Details.UID] {
			return ""
		}
		seen := h.seen[answer.Details.UID]
		// A watch that missed the deletion gives the last state that it knows once more, which says nothing of when.
		if last := len(seen) - 1; last > 0 && seen[last].GetResourceVersion() != seen[last-1].GetResourceVersion() {
			return seen[last].GetResourceVersion()
		}
	}
	return ""
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
