// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestValues has users change fields of all types that a schema may have.
func TestValues(t *testing.T) {
	example := &object{Object: map[string]any{"spec": map[string]any{"memory": "64Mi", "percent": "25%", "labels": map[string]any{"a": "b"},
		"encoded": map[string]any{"a": "Yg==", "c": "ZA=="}}}}
	k := &userKind{examples: []*object{example}}
	isAny, texts := map[string]any{"x-kubernetes-int-or-string": true}, map[string]any{"type": "string"}
	for field, test := range map[string]struct {
		schema map[string]any
		want   []any // of the arguments 0 to 3
	}{
		"memory":  {isAny, []any{"64Mi", "128Mi", "256Mi", "512Mi"}},
		"limit":   {map[string]any{"x-kubernetes-int-or-string": true, "default": "1500m"}, []any{"1500m", "3", "6", "12"}},
		"port":    {isAny, []any{int64(1), int64(2), int64(4), int64(8)}},
		"percent": {isAny, []any{"25%", "25%", "25%", "25%"}},
		"labels": {map[string]any{"type": "object", "additionalProperties": texts}, []any{
			"map[KEY_0:value-0 a:b]", "map[KEY_1:value-0 a:b]", "map[KEY_2:value-0 a:b]", "map[KEY_0:value-1 a:b]",
		}},
		"encoded": {map[string]any{"type": "object", "additionalProperties": texts}, []any{
			"map[KEY_0:Yg== a:Yg== c:ZA==]", "map[KEY_1:Yg== a:Yg== c:ZA==]", "map[KEY_2:Yg== a:Yg== c:ZA==]", "map[KEY_0:ZA== a:Yg== c:ZA==]",
		}},
		"counts": {map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer", "minimum": int64(3)}}, []any{
			"map[KEY_0:3]", "map[KEY_1:3]", "map[KEY_2:3]", "map[KEY_0:4]",
		}},
		"lists": {map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "array"}}, []any{nil, nil, nil, nil}},
	} {
		for argument, want := range test.want {
			got := k.valueOf(leaf{path: []string{"spec", field}, schema: test.schema}, argument)
			if _, isMap := got.(map[string]any); isMap {
				got = fmt.Sprint(got)
			}
			if got != want {
				t.Errorf("value %d of %s is %v, want %v", argument, field, got, want)
			}
		}
	}
	spec := example.Object["spec"].(map[string]any)
	spec["required"], spec["image"] = "nginx", "nginx"
	for _, test := range []struct {
		leaf leaf
		want bool
	}{
		{leaf{[]string{"spec", "required"}, texts, true}, false}, {leaf{[]string{"spec", "unknown"}, texts, false}, false},
		{leaf{[]string{"spec", "image"}, texts, false}, true}, {leaf{[]string{"spec", "memory"}, isAny, true}, true},
	} {
		if got := k.knowsAnother(test.leaf); got != test.want {
			t.Errorf("users know another value of %v: %v", test.leaf.path, got)
		}
	}
	fields := []string{"spec.a", "spec.b.c.d", "spec.b.c.e", "spec.pod.spec.a", "spec.pod.spec.b", "spec.pod.spec.c.d", "spec.pod.spec.e"}
	if got, want := summarize(fields), "spec.a, spec.b.c.d, spec.b.c.e, spec.pod.spec (4 fields)"; got != want {
		t.Errorf("the fields are %s, want %s", got, want)
	}
	properties := map[string]any{
		"map": map[string]any{"type": "object", "additionalProperties": texts},
		"in":  map[string]any{"type": "object", "properties": map[string]any{"ner": texts}},
	}
	paths := map[string]bool{}
	for _, l := range leavesOf(map[string]any{"properties": properties}, nil) {
		paths[fmt.Sprint(l.path)] = true
	}
	integers := map[string]any{"type": "integer"}
	for part, want := range map[string]any{"labels": int64(0), "template": nil} {
		if got := k.valueOf(leaf{path: []string{"spec", part, "size"}, schema: integers}, 0); got != want {
			t.Errorf("a value of %s is %v, want %v", part, got, want)
		}
	}
	if want := []string{"[in ner]", "[map]"}; !slices.Equal(slices.Sorted(maps.Keys(paths)), want) {
		t.Errorf("the fields are %v, want %v", paths, want)
	}
}

// TestDescribe tells a change of which a value is long.
func TestDescribe(t *testing.T) {
	before, after := newUnstructured("example.com/v1", "Widget", "a"), newUnstructured("example.com/v1", "Widget", "a")
	before.Object["spec"] = map[string]any{"image": "nginx", "replicas": int64(1)}
	after.Object["spec"] = map[string]any{"secret": strings.Repeat("x", 1000), "replicas": int64(1)}
	if got, want := describeChange(before, after), "Widget a: secret "+strings.Repeat("x", maxText)+"..., no image"; got != want {
		t.Errorf("it is described as %s, want %s", got, want)
	}
	keyed := &object{Object: map[string]any{"kind": "Widget", "spec": map[string]any{"annotations": map[string]any{"example.com/team": "b"}}}}
	if got, want := describe(keyed), "Widget : example.com/team b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestGenerationAsText reads what a status says of its generation as text, as that of a Rollout of Argo does.
func TestGenerationAsText(t *testing.T) {
	o := newUnstructured("example.com/v1", "Widget", "a")
	o.SetGeneration(2)
	o.Object["status"] = map[string]any{"observedGeneration": "1", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	if observed, ok := observedGeneration(o); observed != 1 || !ok {
		t.Errorf("it reports generation %d, %t, want 1", observed, ok)
	}
	if claim := claimOf(o); claim != "" {
		t.Errorf("%s is about the newest generation, want none", claim)
	}
	if observed, ok := generation("none"); ok {
		t.Errorf("none is generation %d", observed)
	}
}

// TestServes has workloads of which the status is about an old generation: the Pods of a ReplicaSet are not of one.
func TestServes(t *testing.T) {
	for kind, want := range map[string]bool{"Deployment": false, "ReplicaSet": true} {
		o := newUnstructured("apps/v1", kind, "a")
		o.SetGeneration(2)
		o.Object["spec"] = map[string]any{"replicas": int64(2)}
		o.Object["status"] = map[string]any{"observedGeneration": int64(1), "availableReplicas": int64(2)}
		if got := serves(o); got != want {
			t.Errorf("a %s serves: %t", kind, got)
		}
	}
}

// TestDeniedObject has a webhook deny each object that is not like its example: users create that one.
func TestDeniedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTestTester(t, Config{})
		example := all.kinds[0].newObject("", "", 0, 0).Object["spec"]
		w := newWalk(all, script{})
		w.server = apiserver.New(w.registry, apiserver.Options{Validate: func(o, _ *object) error {
			if o.GetKind() == "Widget" && !reflect.DeepEqual(o.Object["spec"], example) {
				return errors.New("denied")
			}
			return nil
		}})
		w.user = w.server.Client(user)
		if got := createOne(w, step{argument: 0b01010101}); !strings.HasPrefix(got, "creates Widget widget-0") {
			t.Errorf("a user %q, want that a Widget is created", got)
		}
	})
}

// TestUnknownField compares the field that no Go type has only if the program must keep it.
func TestUnknownField(t *testing.T) {
	for isCompared, exempt := range map[bool][]Promise{true: nil, false: {OwnFields}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{Exempt: exempt}), script{})
			w.server = apiserver.New(w.registry, apiserver.Options{})
			o := newUnstructured("example.com/v1", "Widget", "a")
			o.Object["spec"] = map[string]any{apiserver.UnknownField: "default"}
			isOne := func(f field) bool { return isUnknown(f.name) }
			if got := slices.ContainsFunc(w.comparedFields(o, nil), isOne); got != isCompared {
				t.Errorf("exempt %v: it is compared: %t", exempt, got)
			}
		})
	}
}
