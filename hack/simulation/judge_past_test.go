// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestForward restarts a controller on a stale API server: it gives a ConfigMap the color that its Widget had before.
func TestForward(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(nil), Strict: []Promise{Forward}})
	s := script{steps: steps(t, "create", "change/16", "change/32", "staleRestart/65540"), faults: map[string]fault{}, noLags: true}
	if w := all.walk(t, s, Forward); w.broken[Forward] == nil {
		t.Errorf("%q is not broken:\n%s", Forward, join(w.lines))
	}
}

// TestNewestOwner has a process whose watch lags write for an old generation of the owner, and then a new process do the same.
func TestNewestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(newTestTester(t, Config{Strict: []Promise{Forward}}), script{})
		w.begin(0, nil)
		defer w.end()
		past := pastJudge(w)
		w.lock.Lock()
		defer w.lock.Unlock()
		i := &instance{walk: w, knowledge: newKnowledge(), name: "instance-1", started: time.Now()}
		for _, write := range []struct {
			generation int64
			restarts   bool // before that
			isBroken   bool
		}{{3, false, false}, {2, false, false}, {2, true, true}} {
			time.Sleep(time.Second) // By the fake clock of the bubble.
			if write.restarts {
				i.started = time.Now()
			}
			past.committed(i, writeFor(i, write.generation))
			if isBroken := w.broken[Forward] != nil; isBroken != write.isBroken {
				t.Errorf("after a write for generation %d, that it is broken is %t", write.generation, isBroken)
			}
		}
	})
}

// writeFor is a write by an instance of a ConfigMap, of whose owner it has known a generation for a second.
func writeFor(i *instance, generation int64) *apiserver.Change {
	owner := newUnstructured("example.com/v1", "Widget", "a")
	owner.SetGeneration(generation)
	i.objects[i.walk.referenceTo(owner)] = known{object: owner, since: time.Now().Add(-time.Second)}
	o := newUnstructured("v1", "ConfigMap", "a")
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	r := newRequestFor(i.walk.referenceTo(o), "update")
	i.open[r] = &request{Request: r, decided: r.Sent}
	return &apiserver.Change{Request: r, Old: o, New: o}
}

func newUnstructured(apiVersion, kind, name string) *object {
	o := &object{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace("default")
	o.SetName(name)
	o.SetUID(types.UID("uid-of-" + name))
	return o
}

// TestOwnerOf finds owners that have a namespace, which is that of what they own, and owners of cluster scope.
func TestOwnerOf(t *testing.T) {
	crd, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for scope, namespace := range map[string]string{"Namespaced": "default", "Cluster": ""} {
		file := filepath.Join(t.TempDir(), "crd.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(crd), "scope: Namespaced", "scope: "+scope, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := newTester(Config{CRDs: []string{file}, Examples: []string{"testdata/examples.yaml"}, Instances: 1, Objects: 1})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(all, script{})
			w.begin(0, nil)
			defer w.end()
			got, isUsers := w.ownerOf("default", &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: "a"})
			want := reference{schema.GroupResource{Group: "example.com", Resource: "widgets"}, types.NamespacedName{Namespace: namespace, Name: "a"}}
			if got != want || !isUsers {
				t.Errorf("%s: the owner is %s in namespace %q, of users: %t, want %s in %q", scope, got, got.Namespace, isUsers, want, want.Namespace)
			}
		})
	}
}
