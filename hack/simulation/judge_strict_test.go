// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestSecondCreation has a controller see late that a Widget is gone: it creates again what was collected.
func TestSecondCreation(t *testing.T) {
	for _, probe := range []string{"a deletion that is seen late, after a restart", "a deletion that is seen late, without a status"} {
		testBroken(t, FreshOwners, nil, script{steps: steps(t, "create"), probes: probeOf(probe)})
	}
}

// TestTakenBack has a controller correct each change after a minute, also after users have taken changes back.
func TestTakenBack(t *testing.T) {
	s := script{steps: steps(t, "create"), probes: probeOf("changes that users take back")}
	testBroken(t, FreshPause, func(c *widgetController) { c.onChange = (*widgetController).enqueueLate }, s)
}

// TestRejectedCorrections has the same controller write what is rejected, so that it may take its time.
func TestRejectedCorrections(t *testing.T) {
	all := newTestTester(t, Config{Strict: strictPromises, Program: newWidgetController(func(c *widgetController) { c.onChange = (*widgetController).enqueueLate })})
	ref := Refer(configMaps.GroupResource(), metav1.NamespaceDefault, "widget-0")
	for _, err := range []error{
		apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, ref.Name, nil),
		apiserver.StatusError(http.StatusForbidden, `admission webhook "validate.simulated" denied the request`),
	} {
		w := all.newTrial(Trial{Run: func(w *Walk) {
			w.walk.takeSteps()
			w.Reject("ConfigMaps are rejected", time.Hour, err,
				func(r *apiserver.Request) bool { return r.Verb == "update" && r.Resource == ref.GroupResource })
			w.walk.judgeQuiet(ref)
		}})
		w.script.steps = steps(t, "create")
		w.inBubble(t)
		if broken := w.broken[FreshPause]; broken != nil || len(w.rejected) == 0 {
			t.Errorf("with %v: %v\n%s", err, broken, join(w.lines))
		}
	}
}

// TestIsForAnotherOwner judges requests for a ConfigMap, of whose name one was created for Widget a before, and is now controlled by Widget b.
func TestIsForAnotherOwner(t *testing.T) {
	controlled := func(uid, owner string) *object {
		o := newUnstructured("v1", "ConfigMap", "c")
		o.SetUID(types.UID(uid))
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "example.com/v1", Kind: "Widget", Name: owner, UID: types.UID("uid-of-" + owner), Controller: new(true),
		}})
		return o
	}
	w := newWalk(newTestTester(t, Config{}), script{})
	w.created["former"], w.created["again"] = controlled("former", "a"), controlled("again", "b")
	w.created["adopted"], w.adopted["adopted"] = controlled("adopted", "b"), "uid-of-a"
	w.created["own"], w.adopted["own"] = controlled("own", "a"), "uid-of-b"
	of := func(version, owner string) *object {
		o := controlled("", owner)
		o.SetResourceVersion(version)
		return o
	}
	w.controlledAt["7"], w.controlledAt["8"] = controlled("former", "a"), controlled("again", "b")
	for name, test := range map[string]struct {
		request *request
		want    bool
	}{
		"a patch of a's":                         {&request{Request: &apiserver.Request{Verb: "patch"}, body: of("7", "a")}, true},
		"an update of b's first":                 {&request{Request: &apiserver.Request{Verb: "update"}, body: of("8", "b")}, false},
		"an update that takes a's for b":         {&request{Request: &apiserver.Request{Verb: "update"}, body: of("7", "b")}, true},
		"a JSON patch":                           {&request{Request: &apiserver.Request{Verb: "patch"}}, false},
		"a creation for a":                       {&request{Request: &apiserver.Request{Verb: "create"}, body: controlled("", "a")}, true},
		"a creation for b":                       {&request{Request: &apiserver.Request{Verb: "create"}, body: controlled("", "b")}, false},
		"the deletion of a's":                    {&request{Request: deletionOf(`{"preconditions":{"uid":"former"}}`)}, true},
		"the deletion of b's first":              {&request{Request: deletionOf(`{"preconditions":{"uid":"again"}}`)}, false},
		"the deletion of one that a has adopted": {&request{Request: deletionOf(`{"preconditions":{"uid":"adopted"}}`)}, true},
		"the deletion of one that b has adopted": {&request{Request: deletionOf(`{"preconditions":{"uid":"own"}}`)}, false},
		"a deletion of that name":                {&request{Request: deletionOf("")}, false},
		"a deletion by the version":              {&request{Request: deletionOf(`{"preconditions":{"resourceVersion":"7"}}`)}, false},
		"an update":                              {&request{Request: &apiserver.Request{Verb: "update"}, body: controlled("former", "a")}, false},
	} {
		if got := w.isForAnotherOwner(test.request, controlled("now", "b")); got != test.want {
			t.Errorf("%s: that it is for another owner is %t", name, got)
		}
	}
}

func deletionOf(options string) *apiserver.Request {
	return &apiserver.Request{Verb: "delete", Body: []byte(options)}
}

// TestDeniedWrite has a write fail with 409 that is computed from the instance's own write: from an older state, or because a webhook denies it.
func TestDeniedWrite(t *testing.T) {
	ref := Refer(configMaps.GroupResource(), "default", "a")
	for err, isBroken := range map[error]bool{
		apierrors.NewConflict(ref.GroupResource, ref.Name, errors.New("the object has been modified")):              true,
		apiserver.StatusError(http.StatusConflict, `admission webhook "validate.simulated" denied the request: no`): false,
	} {
		w := newWalk(newTestTester(t, Config{Strict: strictPromises}), script{})
		i := &instance{walk: w, name: "instance-1", knowledge: newKnowledge()}
		found := newUnstructured("v1", "ConfigMap", "a")
		found.SetResourceVersion("9")
		i.acked[ref] = "9"
		strictJudge(w).failed(i, &request{Request: newRequestFor(ref, "update"), ref: ref}, found, err)
		if got := w.broken[OwnWrites] != nil; got != isBroken {
			t.Errorf("after %q, it is broken: %t", err, got)
		}
	}
}
