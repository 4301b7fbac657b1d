// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestDue has requests fail for a minute, or change nothing, and judges until when the next one may wait after something has happened.
func TestDue(t *testing.T) {
	all := newTestTester(t, Config{})
	configMap := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	for name, test := range map[string]struct {
		failing string // the verb
		isVain  bool
		happens func(w *walk, i *instance)
		next    string
		isDue   bool // at once
	}{
		"an error":                                {"patch", false, func(*walk, *instance) {}, "patch", false},
		"an error, and news":                      {"patch", false, hearNews(configMap), "patch", true},
		"a patch in vain, and news":               {"patch", true, hearNews(configMap), "patch", false},
		"a patch in vain, and a creation":         {"patch", true, hearNews(configMap), "create", true},
		"a patch in vain, and a new spec":         {"patch", true, func(w *walk, _ *instance) { w.specAt[configMap.String()] = time.Now() }, "patch", true},
		"a deletion that failed, and news":        {"delete", false, hearNews(configMap), "delete", false},
		"a read that has succeeded":               {"get", false, readIt(configMap, 0), "create", false},
		"a read that succeeded some time earlier": {"get", false, readIt(configMap, time.Second), "create", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWalk(all, script{})
				i := &instance{walk: w, knowledge: newKnowledge()}
				of := series{useOf(newRequestFor(configMap, test.failing)), configMap.String()}
				for range 3 {
					i.failures[of] = i.failures[of].and(test.isVain)
					time.Sleep(30 * time.Second) // By the fake clock of the bubble.
				}
				test.happens(w, i)
				due := i.newRequest(newRequestFor(configMap, test.next)).due
				if isDue := !due.After(time.Now()); isDue != test.isDue {
					t.Errorf("due at once: %t, want %t", isDue, test.isDue)
				}
			})
		})
	}
}

// TestDueAfterRead has reads fail for a while, and judges until when a write of a Widget may wait that follows on the one that succeeds: it was
// read for the Widget unless it is another one.
func TestDueAfterRead(t *testing.T) {
	all := newTestTester(t, Config{})
	widget := Refer(widgets.GroupResource(), "default", "b")
	for read, isDue := range map[Reference]bool{
		Refer(schema.GroupResource{Resource: "persistentvolumes"}, "", "a"): false, Refer(widgets.GroupResource(), "default", "a"): true,
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &instance{walk: newWalk(all, script{}), knowledge: newKnowledge()}
			of := series{useOf(newRequestFor(read, "get")), read.String()}
			for range 3 {
				i.failures[of] = i.failures[of].and(false)
				time.Sleep(30 * time.Second) // By the fake clock of the bubble.
			}
			readIt(read, 0)(i.walk, i)
			if got := !i.newRequest(newRequestFor(widget, "update")).due.After(time.Now()); got != isDue {
				t.Errorf("after reads of %s, it is due at once: %t, want %t", read, got, isDue)
			}
		})
	}
}

// TestDecidedBeforeRead has a read fail after a second, and judges when a write of a Widget was decided that follows: before the read, unless that
// was of another Widget.
func TestDecidedBeforeRead(t *testing.T) {
	all := newTestTester(t, Config{})
	for read, isBefore := range map[Reference]bool{
		Refer(configMaps.GroupResource(), "default", "a"): true, Refer(widgets.GroupResource(), "default", "a"): false,
	} {
		synctest.Test(t, func(t *testing.T) {
			i, began := &instance{walk: newWalk(all, script{}), knowledge: newKnowledge()}, time.Now()
			sent := i.newRequest(newRequestFor(read, "get"))
			time.Sleep(time.Second) // By the fake clock of the bubble.
			i.learnResponse(sent, nil, apierrors.NewTimeoutError("injected", 0))
			written := i.newRequest(newRequestFor(Refer(widgets.GroupResource(), "default", "b"), "update"))
			if got := written.decided.Equal(began); got != isBefore {
				t.Errorf("after a read of %s, it was decided before that: %t, want %t", read, got, isBefore)
			}
		})
	}
}

// TestDryRun has an instance write without storing: it is no write, and the instance knows no more than before.
func TestDryRun(t *testing.T) {
	ref := Refer(configMaps.GroupResource(), "default", "a")
	for query, isWrite := range map[string]bool{"": true, "dryRun=All": false} {
		i, request := &instance{walk: newWalk(newTestTester(t, Config{}), script{}), knowledge: newKnowledge()}, newRequestFor(ref, "create")
		request.Query, _ = url.ParseQuery(query)
		created := newUnstructured("v1", "ConfigMap", "a")
		created.SetResourceVersion("7")
		i.learnResponse(i.newRequest(request), created, nil)
		if _, isKnown := i.objects[ref]; request.IsWrite() != isWrite || isKnown != isWrite {
			t.Errorf("with the query %q it is a write: %t, and known: %t", query, request.IsWrite(), isKnown)
		}
	}
}

func newRequestFor(ref reference, verb string) *apiserver.Request {
	return &apiserver.Request{Verb: verb, Resource: ref.GroupResource, Namespace: ref.Namespace, Name: ref.Name, Sent: time.Now(),
		Body: []byte(`{"metadata":{"name":"` + ref.Name + `"}}`)}
}

func hearNews(ref reference) func(w *walk, i *instance) {
	return func(w *walk, _ *instance) { w.news[ref.String()] = time.Now() }
}

// readIt answers a read, some time before the next request.
func readIt(ref reference, before time.Duration) func(w *walk, i *instance) {
	return func(_ *walk, i *instance) {
		read := i.newRequest(newRequestFor(ref, "get"))
		i.learnResponse(read, &object{Object: map[string]any{"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace}}}, nil)
		time.Sleep(before)
	}
}

// TestOutdated has writes refused, and judges whether that counts: not if they would have failed otherwise.
func TestOutdated(t *testing.T) {
	all := newTestTester(t, Config{})
	configMap := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	for name, test := range map[string]struct {
		verb, found, body string // resourceVersions; none is found without one
		counts            bool
	}{
		"creation":                     {"create", "", "", true},
		"creation of what exists":      {"create", "2", "", false},
		"update":                       {"update", "2", "2", true},
		"update without a version":     {"update", "2", "", true},
		"update of what has changed":   {"update", "2", "1", false},
		"update of what is gone":       {"update", "", "1", false},
		"deletion":                     {"delete", "2", "", true},
		"deletion of what is gone too": {"delete", "", "", false},
	} {
		w := newWalk(all, script{})
		if test.found != "" {
			w.objects[configMap] = &object{Object: map[string]any{"metadata": map[string]any{"name": "a", "resourceVersion": test.found}}}
		}
		r := &request{Request: newRequestFor(configMap, test.verb), ref: configMap, about: "widgets a"}
		if r.Verb != "delete" {
			r.body = &object{Object: map[string]any{"metadata": map[string]any{"name": "a", "resourceVersion": test.body}}}
		}
		i := &instance{walk: w, knowledge: newKnowledge()}
		i.recordResponse(r, apiserver.StatusError(http.StatusForbidden, "RBAC does not allow it"))
		if _, counts := w.refused["widgets a"]; counts != test.counts {
			t.Errorf("%s: it counts as refused: %t, want %t", name, counts, test.counts)
		}
	}
}

// TestOrphanIsDecided has others make an object an orphan while a sync is about to delete it: it was decided when the sync began.
func TestOrphanIsDecided(t *testing.T) {
	all := newTestTester(t, Config{})
	owner := reference{schema.GroupResource{Resource: "widgets", Group: "example.com"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	configMap := reference{schema.GroupResource{Resource: "configmaps"}, owner.NamespacedName}
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(all, script{})
		i := &instance{walk: w, knowledge: newKnowledge()}
		began := time.Now()
		read := i.newRequest(newRequestFor(owner, "get"))
		time.Sleep(time.Second) // By the fake clock of the bubble: the read takes that.
		i.learn(configMap.GroupResource, &object{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "default"}}}, watched)
		i.learnResponse(read, &object{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "default"}}}, nil)
		if deletion := i.newRequest(newRequestFor(configMap, "delete")); !deletion.decided.Equal(began) {
			t.Errorf("decided after %s, want 0s", deletion.decided.Sub(began))
		}
	})
}

// TestKnown has an instance delete an object, and judges whether a write knew that for certain.
func TestKnown(t *testing.T) {
	all := newTestTester(t, Config{})
	configMap := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	for name, test := range map[string]struct {
		decided, waits time.Duration // before, and after the response
		isCertain      bool
	}{
		"decided after the response":                {0, time.Second, true},
		"decided at the moment of the response":     {0, 0, true},
		"decided before, and sent after the answer": {time.Second, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWalk(all, script{})
				i := &instance{walk: w, knowledge: newKnowledge()}
				i.learn(configMap.GroupResource, &object{Object: map[string]any{"metadata": map[string]any{
					"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1"}}}, read)
				decided := time.Now()
				time.Sleep(test.decided)
				i.learnResponse(i.newRequest(newRequestFor(configMap, "delete")),
					&object{Object: map[string]any{"details": map[string]any{"uid": "1"}}}, nil)
				time.Sleep(test.waits)
				sent := i.newRequest(newRequestFor(configMap, "create"))
				if test.decided > 0 {
					sent.decided = decided
				}
				known, isCertain := Write{by: i, sent: sent}.Known(configMap.GroupResource, "default", "a")
				if known != nil || isCertain != test.isCertain {
					t.Errorf("Known() = %v, %t, want nil, %t", known, isCertain, test.isCertain)
				}
			})
		})
	}
}

// TestRefusedForOlderSpec has a write refused for a Widget of generation 2, of which the instance knows another one.
func TestRefusedForOlderSpec(t *testing.T) {
	all := newTestTester(t, Config{})
	widget := reference{widgets.GroupResource(), types.NamespacedName{Namespace: "default", Name: "a"}}
	newWidget := func(uid string, generation int64, version string) *object {
		o := newUnstructured("example.com/v1", "Widget", "a")
		o.SetUID(types.UID(uid))
		o.SetGeneration(generation)
		o.SetResourceVersion(version)
		return o
	}
	learning := func(o *object) func(i *instance) {
		return func(i *instance) { i.learn(widget.GroupResource, o, written) }
	}
	for name, test := range map[string]struct {
		learns func(i *instance) // a second before it decides to write
		later  *object           // what it learns just after that
		counts bool
	}{
		"the newest spec":           {learning(newWidget("1", 2, "1")), nil, true},
		"the newest spec, too late": {learning(newWidget("1", 1, "1")), newWidget("1", 2, "2"), false},
		"its own status, just then": {learning(newWidget("1", 2, "1")), newWidget("1", 2, "2"), true},
		"an older spec":             {learning(newWidget("1", 1, "1")), nil, false},
		"a former Widget":           {learning(newWidget("0", 2, "1")), nil, false},
		"no Widget":                 {func(*instance) {}, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(all, script{})
			w.objects[widget] = newWidget("1", 2, "3")
			i := &instance{walk: w, knowledge: newKnowledge()}
			test.learns(i)
			time.Sleep(time.Second) // By the fake clock of the bubble.
			of := reference{schema.GroupResource{Resource: "configmaps"}, widget.NamespacedName}
			r := &request{Request: newRequestFor(of, "create"), about: widget.String(), decided: time.Now()}
			if test.later != nil {
				learning(test.later)(i)
			}
			i.recordResponse(r, apiserver.StatusError(http.StatusForbidden, "RBAC does not allow it"))
			if _, counts := w.refused[widget.String()]; counts != test.counts {
				t.Errorf("%s: it counts as refused: %t, want %t", name, counts, test.counts)
			}
		})
	}
}

// TestRefusedDeletion has a deletion refused of an object that may have changed since it was seen: it would have failed then.
func TestRefusedDeletion(t *testing.T) {
	ref := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	for body, counts := range map[string]bool{
		`{"preconditions":{"resourceVersion":"1"}}`: true, `{"preconditions":{"resourceVersion":"0"}}`: false, `{}`: true,
		`{"preconditions":{"uid":"1"}}`: true, `{"preconditions":{"uid":"0"}}`: false, "": true,
	} {
		w := newWalk(newTestTester(t, Config{}), script{})
		o := newUnstructured("v1", "ConfigMap", "a")
		o.SetUID("1")
		o.SetResourceVersion("1")
		w.objects[ref] = o
		i := &instance{walk: w, knowledge: newKnowledge()}
		r := newRequestFor(ref, "delete")
		r.Body = []byte(body)
		i.recordResponse(&request{Request: r, ref: ref, about: "widgets a"}, apiserver.StatusError(http.StatusForbidden, "exceeded quota"))
		if _, got := w.refused["widgets a"]; got != counts {
			t.Errorf("with %s, it counts as refused: %t, want %t", body, got, counts)
		}
	}
}

// TestSeen has an instance learn of an object in several ways, and judges whether a later write certainly used that, if it is for another one.
func TestSeen(t *testing.T) {
	ref := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	newVersion := func(version string) *object {
		o := newUnstructured("v1", "ConfigMap", "a")
		o.SetResourceVersion(version)
		return o
	}
	notFound := func(i *instance) {
		r := newRequestFor(ref, "get")
		i.learnResponse(i.newRequest(r), nil, apierrors.NewNotFound(ref.GroupResource, ref.Name))
	}
	for name, test := range map[string]struct {
		learn     func(i *instance)
		isCertain bool
	}{
		"an event, and then a read that finds nothing": {func(i *instance) {
			i.learn(ref.GroupResource, newVersion("1"), watched)
			notFound(i)
		}, false},
		"a read that finds nothing, and then an event": {func(i *instance) {
			notFound(i)
			i.learn(ref.GroupResource, newVersion("1"), watched)
		}, true},
		"a read, and its event later": {func(i *instance) {
			i.learn(ref.GroupResource, newVersion("1"), read)
			time.Sleep(time.Minute)
			i.learn(ref.GroupResource, newVersion("1"), watched)
		}, false},
		"an event": {func(i *instance) { i.learn(ref.GroupResource, newVersion("1"), watched) }, true},
		"a read":   {func(i *instance) { i.learn(ref.GroupResource, newVersion("1"), read) }, false},
		"a write":  {func(i *instance) { i.learn(ref.GroupResource, newVersion("1"), written) }, false},
		"a read, and then its event": {func(i *instance) {
			i.learn(ref.GroupResource, newVersion("1"), read)
			i.learn(ref.GroupResource, newVersion("1"), watched)
		}, true},
		"an event, and then a newer read": {func(i *instance) {
			i.learn(ref.GroupResource, newVersion("1"), watched)
			i.learn(ref.GroupResource, newVersion("2"), read)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{}), script{})
			i := &instance{walk: w, knowledge: newKnowledge()}
			decided := time.Now().Add(time.Second) // By the fake clock of the bubble.
			test.learn(i)
			write := Write{Cluster{w}, nil, i, &request{decided: decided}}
			if _, isCertain := write.Seen(ref.GroupResource, ref.Namespace, ref.Name); isCertain != test.isCertain {
				t.Errorf("%s: that it was seen is certain: %t, want %t", name, isCertain, test.isCertain)
			}
		})
	}
}

// TestRead asks what a live read has shown just before a write.
func TestRead(t *testing.T) {
	ref := Refer(configMaps.GroupResource(), "default", "a")
	for name, test := range map[string]struct {
		learn  func(i *instance, o *object)
		isRead bool
	}{
		"nothing":         {func(*instance, *object) {}, false},
		"a read":          {func(i *instance, o *object) { i.learn(ref.GroupResource, o, read) }, true},
		"an earlier read": {func(i *instance, o *object) { i.learn(ref.GroupResource, o, read); time.Sleep(time.Second) }, false},
		"an event":        {func(i *instance, o *object) { i.learn(ref.GroupResource, o, watched) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{}), script{})
			i := &instance{walk: w, knowledge: newKnowledge()}
			o := newUnstructured("v1", "ConfigMap", "a")
			o.SetResourceVersion("1")
			test.learn(i, o)
			write := Write{Cluster{w}, nil, i, &request{Request: &apiserver.Request{Sent: time.Now()}}}
			if got := write.Read(ref.GroupResource, "default", "a"); (got != nil) != test.isRead {
				t.Errorf("%s: Read() = %v", name, got)
			}
		})
	}
}

// TestLateWatch has an instance open a watch before it writes: one that other watches have not waited for belongs to what was decided.
func TestLateWatch(t *testing.T) {
	all := newTestTester(t, Config{})
	resource := func(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }
	widgets, gadgets, configMaps, secrets := resource("widgets"), resource("gadgets"), resource("configmaps"), resource("secrets")
	take := func(duration time.Duration, resource schema.GroupResource) func(i *instance) {
		return func(i *instance) {
			list := &apiserver.Request{Verb: "list", Resource: resource, Sent: time.Now()}
			_, respond := i.Request(list)
			time.Sleep(duration) // By the fake clock of the bubble.
			respond(&object{Object: map[string]any{}}, nil)
		}
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		happens []func(i *instance)
		want    time.Duration // how long before it was sent the request was decided
	}{
		"no late watch":               {nil, 0},
		"a late one":                  {[]func(*instance){take(50*ms, configMaps), pass(ms)}, 51 * ms},
		"seen at the next look":       {[]func(*instance){take(50*ms, configMaps), pass(pollTime)}, 50*ms + pollTime},
		"later":                       {[]func(*instance){take(50*ms, configMaps), pass(pollTime + 1)}, 0},
		"two late ones":               {[]func(*instance){take(50*ms, configMaps), take(50*ms, secrets), pass(ms)}, 101 * ms},
		"one that was opened already": {[]func(*instance){take(50*ms, widgets), pass(ms)}, 0},
		"one after the other": {[]func(*instance){func(i *instance) {
			i.opens(configMaps)
			i.opens(secrets)
			i.learnEvent(&apiserver.Request{Resource: configMaps}, watch.Bookmark, &object{})
		}, pass(2 * time.Second)}, 2 * time.Second},
		"one that never catches up": {[]func(*instance){func(i *instance) { i.opens(configMaps) }, pass(patience)}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &instance{walk: newWalk(all, script{}), knowledge: newKnowledge()}
			i.opens(widgets)
			time.Sleep(time.Second) // By the fake clock of the bubble.
			i.catchesUp(widgets)
			i.opens(gadgets) // At the same moment: it is one of the beginning.
			i.catchesUp(gadgets)
			for _, happens := range append([]func(*instance){pass(time.Second)}, test.happens...) {
				happens(i)
			}
			r := newRequestFor(reference{configMaps, types.NamespacedName{Name: "a"}}, "update")
			if got := r.Sent.Sub(i.newRequest(r).decided); got != test.want {
				t.Errorf("%s: decided %s before, want %s", name, got, test.want)
			}
		})
	}
}

// pass lets time pass by the fake clock of a bubble.
func pass(duration time.Duration) func(*instance) {
	return func(*instance) { time.Sleep(duration) }
}

// TestRelist has an instance list what it has known, also with a watch that sends initial events: what it does not get is gone, unless the list is
// older or only of a part.
func TestRelist(t *testing.T) {
	all := newTestTester(t, Config{})
	ref := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
	for name, test := range map[string]struct {
		query, version string
		isListed       bool
		isGone         bool
	}{
		"without it":           {"", "2", false, true},
		"with it":              {"", "2", true, false},
		"before it was there":  {"", "0", false, false},
		"of those with labels": {"&labelSelector=a", "2", false, false},
	} {
		o := newUnstructured("v1", "ConfigMap", "a")
		o.SetResourceVersion("1")
		list := newUnstructured("v1", "ConfigMap", "")
		list.SetResourceVersion(test.version)
		list.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		if test.isListed {
			list.Object["items"] = []any{o.Object}
		}
		for verb, relist := range map[string]func(i *instance, r *apiserver.Request){
			"list?": func(i *instance, r *apiserver.Request) { i.learnResponse(i.newRequest(r), list, nil) },
			"watch?sendInitialEvents=true": func(i *instance, r *apiserver.Request) {
				i.Request(r)
				if test.isListed {
					i.Event(r, watch.Added, o)
				}
				i.Event(r, watch.Bookmark, list)
			},
		} {
			i := &instance{walk: newWalk(all, script{}), knowledge: newKnowledge()}
			i.learn(ref.GroupResource, o, watched)
			verb, query, _ := strings.Cut(verb, "?")
			values, _ := url.ParseQuery(query + test.query) // It is one.
			relist(i, &apiserver.Request{Verb: verb, Resource: ref.GroupResource, Query: values, Sent: time.Now()})
			_, isAbsent := i.absent[o.GetUID()]
			if gone := i.objects[ref].gone; gone != test.isGone || isAbsent != test.isGone {
				t.Errorf("a %s %s: it is gone: %t, %t, want %t", verb, name, gone, isAbsent, test.isGone)
			}
		}
	}
}
