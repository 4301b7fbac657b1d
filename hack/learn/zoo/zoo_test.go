// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var (
	limit  = flag.Int("zoo.limit", 200, "how many probes and walks there are at most until the broken promise of a bug is noticed")
	mended = flag.Int("zoo.mended", 40, "how many there are with each mended controller")
)

func init() { simulation.Flags() } // TestREADME shrinks stories.

// TestBroken walks with each broken controller until its promise is broken.
func TestBroken(t *testing.T) {
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			found, err := simulation.Find(t, a.configOf(false), a.promise, *limit, false)
			if err != nil {
				t.Fatal(err)
			}
			if found == nil {
				t.Fatalf("in %d walks, %q is not broken", *limit, a.promise)
			}
			t.Logf("noticed in walk %d", found.Walks)
		})
	}
}

// TestMended walks with each mended controller: it keeps the promise that the bug breaks.
func TestMended(t *testing.T) {
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			found, err := simulation.Find(t, a.configOf(true), a.promise, *mended, false)
			if err != nil {
				t.Fatal(err)
			}
			if found != nil {
				t.Errorf("in walk %d: %s", found.Walks, found.Story)
			}
		})
	}
}

// TestIndex walks with a mended controller whose Manager has an index: one that is stopped before its caches have synced never ends.
func TestIndex(t *testing.T) {
	config := scylla.configOf(true)
	config.SyncsFirst = true
	config.Program = prepared(func(manager ctrl.Manager) error {
		return manager.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "type", func(client.Object) []string { return nil })
	}, scyllaController{mended: true}.reconcile, &corev1.ConfigMap{})
	found, err := simulation.Find(t, config, scylla.promise, *mended, false)
	if err != nil {
		t.Fatal(err)
	}
	if found != nil {
		t.Errorf("in walk %d: %s", found.Walks, found.Story)
	}
}
