// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestWrongCopy judges a status whose number of replicas is a copy of that in the status of a Deployment.
func TestWrongCopy(t *testing.T) {
	deployment := func(replicas int64, isDeleted bool) *object {
		o := &object{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "a"}, "status": map[string]any{"replicas": replicas}}}
		if isDeleted {
			o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2000-01-01T00:00:00Z"
		}
		return o
	}
	owner := func(replicas int64) *object {
		return &object{Object: map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet",
			"metadata": map[string]any{"name": "a", "uid": "owner"}, "status": map[string]any{"replicas": replicas}}}
	}
	w := newWalk(newTestTester(t, Config{}), script{})
	w.server = apiserver.New(w.registry, apiserver.Options{})
	given := deployment(2, false)
	given.SetUID("given")
	w.adopted["given"] = owner(0).GetUID()
	copies := map[copied]bool{{
		fieldOf{w.referenceTo(owner(0)).GroupResource, "status.replicas"}, fieldOf{w.referenceTo(deployment(0, false)).GroupResource, "status.replicas"},
	}: false}
	for name, test := range map[string]struct {
		reported int64
		its      []*object
		isWrong  bool
	}{
		"the same":                                {2, []*object{deployment(2, false)}, false},
		"another":                                 {2, []*object{deployment(1, false)}, true},
		"that of the second":                      {2, []*object{deployment(1, false), deployment(2, false)}, false},
		"none, although there is one":             {0, []*object{deployment(2, false)}, true},
		"none of nothing":                         {0, nil, false},
		"none, and users have given it one":       {0, []*object{given}, false},
		"none, although it has one of its own":    {0, []*object{given, deployment(2, false)}, true},
		"one of nothing":                          {2, nil, true},
		"that of one that is being deleted":       {2, []*object{deployment(2, true)}, false},
		"none, since it is being deleted":         {0, []*object{deployment(2, true)}, false},
		"none, and only one of two is on its way": {0, []*object{deployment(2, true), deployment(1, false)}, true},
	} {
		field, got := w.wrongCopy(observation{object: owner(test.reported), its: test.its}, copies)
		if (field != "") != test.isWrong || test.isWrong && (field != "status.replicas" || got != test.reported) {
			t.Errorf("%s: wrongCopy() = %q, %d; is it wrong: want %t", name, field, got, test.isWrong)
		}
	}
}

// TestKnownOwnership judges a patch of a ConfigMap that belongs to others, as a read has shown before. A precondition makes it fail.
func TestKnownOwnership(t *testing.T) {
	for version, isBroken := range map[string]bool{"": true, "9": true, "7": false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{}), script{})
			i := &instance{walk: w, name: "instance-1", knowledge: newKnowledge()}
			theirs, patch := newUnstructured("v1", "ConfigMap", "a"), newUnstructured("v1", "ConfigMap", "a")
			theirs.SetResourceVersion("9")
			patch.SetResourceVersion(version)
			ref := Refer(configMaps.GroupResource(), "default", "a")
			w.objects[ref], i.objects[ref] = theirs, known{object: theirs, since: time.Now(), isRead: true}
			time.Sleep(time.Second) // By the fake clock of the bubble.
			i.judgeOwnership(&request{Request: &apiserver.Request{Verb: "patch", Resource: ref.GroupResource}, ref: ref, body: patch, decided: time.Now()})
			if got := w.broken[OwnObjects] != nil; got != isBroken {
				t.Errorf("with the resourceVersion %q: it is broken: %t", version, got)
			}
		})
	}
}

// TestOwnOfUsersKind deletes a Widget, which users create as well as programs.
func TestOwnOfUsersKind(t *testing.T) {
	for _, isProgramsOwn := range []bool{false, true} {
		w := newWalk(newTestTester(t, Config{}), script{})
		w.server = apiserver.New(w.registry, apiserver.Options{})
		widget := newUnstructured("example.com/v1", "Widget", "a")
		ref := w.referenceTo(widget)
		w.objects[ref] = widget
		if isProgramsOwn {
			w.created[widget.GetUID()] = widget
		}
		i := &instance{walk: w, name: "instance-1", knowledge: newKnowledge()}
		i.judgeOwnership(&request{Request: &apiserver.Request{Verb: "delete", Resource: ref.GroupResource}, ref: ref})
		if isBroken := w.broken[OwnObjects] != nil; isBroken == isProgramsOwn {
			t.Errorf("if the program has created it, %t, the promise is broken: %t", isProgramsOwn, isBroken)
		}
	}
}

// TestFollowingWrites has a program that has created one ConfigMap, and changes it: each progress may be a write, but not without end.
func TestFollowingWrites(t *testing.T) {
	for changes, isBroken := range map[int]bool{30 + maxFollowing - 1: false, 30 + maxFollowing: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{Resync: time.Hour}), script{})
			w.start, w.ended = time.Now(), make(chan struct{})
			for n := range changes + 1 {
				verb := "update"
				if n == 0 {
					verb = "create"
				}
				w.requests = append(w.requests, &request{Request: &apiserver.Request{Verb: verb, Resource: configMaps.GroupResource(), Sent: w.start}})
			}
			w.judgeWork()
			if got := w.broken[BoundedWork] != nil; got != isBroken {
				t.Errorf("after %d changes, the promise is broken: %t", changes, got)
			}
		})
	}
}

// TestRivals has an instance write the status of a Widget: while another one leads, too, that one may report it at the next resync.
func TestRivals(t *testing.T) {
	all := newTestTester(t, Config{Resync: time.Hour, Strict: []Promise{Unseen}})
	for name, test := range map[string]struct {
		resource, subresource string
		leads, stopped        bool // the other instance
		isLate                bool
	}{
		"no rival":      {"widgets", "status", false, false, false},
		"a rival":       {"widgets", "status", true, false, true},
		"one that died": {"widgets", "status", true, true, false},
		"a spec":        {"widgets", "", true, false, false},
		"of no Widget":  {"configmaps", "status", true, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(all, script{})
			w.server = apiserver.New(w.registry, apiserver.Options{})
			for _, name := range []string{"instance-1", "instance-2"} {
				w.instances = append(w.instances, &instance{walk: w, name: name, knowledge: newKnowledge()})
			}
			w.instances[0].leads, w.instances[1].leads, w.instances[1].stopped = true, test.leads, test.stopped
			resource := schema.GroupResource{Resource: test.resource}
			if test.resource == "widgets" {
				resource.Group = "example.com"
			}
			o := &object{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "default"}}}
			w.Committed(&apiserver.Change{Request: &apiserver.Request{Client: "instance-1", Verb: "update", Resource: resource,
				Subresource: test.subresource, Namespace: "default", Name: "a"}, Old: o, New: o})
			if isLate := w.isLate(w.referenceTo(o)); isLate != test.isLate {
				t.Errorf("%s: its status may be late: %t, want %t", name, isLate, test.isLate)
			}
			settled := time.Now()
			w.silence()
			want := w.resyncTime()
			if test.isLate {
				want *= 2
			}
			if got := time.Since(settled); got != want {
				t.Errorf("%s: silence was judged for %s, want %s", name, got, want)
			}
		})
	}
}

// TestResyncSoonAfter has a program correct nothing before a resync, which comes at any time: every period, or every other, as client-go skips one
// that comes a moment early.
func TestResyncSoonAfter(t *testing.T) {
	const resync = 4 * time.Minute
	for _, period := range []time.Duration{resync, 2 * resync} {
		for first := 10 * time.Second; first <= period; first += 10 * time.Second {
			synctest.Test(t, func(t *testing.T) {
				w := newWalk(newTestTester(t, Config{Resync: resync}), script{})
				w.server = apiserver.New(w.registry, apiserver.Options{})
				start := time.Now()
				w.withoutResync(NoResync, func() bool {
					next := first - time.Since(start)
					for next <= 0 {
						next += period
					}
					time.AfterFunc(next, func() {
						w.lock.Lock()
						defer w.lock.Unlock()
						w.requests = append(w.requests, &request{Request: &apiserver.Request{Verb: "create", Resource: configMaps.GroupResource(),
							Sent: time.Now()}})
					})
					return true
				})
				if !w.isBroken(NoResync) {
					t.Errorf("with a resync %s after the first, and each %s, %s is not broken", first, period, NoResync)
				}
			})
		}
	}
}

// TestHides has a fault end that kept the program from reporting what was so: it may report at the next resync, or the next retry.
func TestHides(t *testing.T) {
	for resync, until := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Minute: maxRetryDelay} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{Resync: resync}), script{})
			w.server = apiserver.New(w.registry, apiserver.Options{})
			verify := func(when string, want bool) {
				t.Helper()
				w.lock.Lock()
				defer w.lock.Unlock()
				if got := w.hides(); got != want {
					t.Errorf("resync period %s, %s: hides() = %t", resync, when, got)
				}
			}
			verify("before", false)
			w.setHidden(true)
			verify("during the fault", true)
			w.calm()
			time.Sleep(until - time.Nanosecond) // By the fake clock of the bubble.
			verify("just before it may be late no longer", true)
			time.Sleep(time.Nanosecond)
			verify("then", false)
		})
	}
}

// TestChangesOfTakenName counts what others have done about a Widget: they have deleted what had the name that the program has used since, and
// changed something that the program has created for the Widget.
func TestChangesOfTakenName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(newTestTester(t, Config{}), script{})
		owner := newUnstructured("example.com/v1", "Widget", "a")
		taken, own := newUnstructured("v1", "ConfigMap", "a"), newUnstructured("v1", "ConfigMap", "b")
		own.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
		w.server = apiserver.New(w.registry, apiserver.Options{})
		ref, refOfOwn, of := w.referenceTo(taken), w.referenceTo(own), w.referenceTo(owner)
		w.recordNews(ref, &apiserver.Change{Type: watch.Deleted, Old: taken, New: taken})
		time.Sleep(time.Second) // By the fake clock of the bubble.
		w.recordNews(refOfOwn, &apiserver.Change{Type: watch.Modified, Old: own, New: own})
		for _, ref := range []reference{ref, refOfOwn, of} {
			w.requests = append(w.requests, &request{Request: newRequestFor(ref, "update"), ref: ref, about: of.String()})
		}
		if n := w.changesSince(w.requests[2], time.Now().Add(-time.Minute)); n != 2 {
			t.Errorf("others have changed something %d times, want 2", n)
		}
	})
}

// TestMostFrequent tells which write is made most often, and how the last one has ended.
func TestMostFrequent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(newTestTester(t, Config{}), script{})
		i := &instance{walk: w, name: "instance-1", knowledge: newKnowledge()}
		for name, times := range map[string]int{"a": 1, "b": 2} {
			for range times {
				r := i.newRequest(newRequestFor(Refer(configMaps.GroupResource(), "default", name), "delete"))
				w.requests = append(w.requests, r.withoutBody())
				i.learnResponse(r, nil, apiserver.StatusError(http.StatusForbidden, "no"))
			}
		}
		isAny := func(*request) bool { return true }
		if got, want := w.mostFrequent(time.Time{}, isAny), "2 times delete configmaps b; the last one: no"; got != want {
			t.Errorf("mostFrequent() = %q, want %q", got, want)
		}
	})
}
