// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
)

type storeAt string

func (s *storeAt) LastStoreSyncResourceVersion() string { return string(*s) }

func TestVisible(t *testing.T) {
	key := cache.NewObjectName("default", "example-foo")
	for name, test := range map[string]struct {
		store   storeAt
		written []string
		want    bool
	}{
		"a store is new enough if nothing was written":           {store: "1", want: true},
		"a store that is behind the write hides it":              {store: "99", written: []string{"100"}, want: false},
		"a store at the write shows it":                          {store: "100", written: []string{"100"}, want: true},
		"a store past the write shows it":                        {store: "101", written: []string{"100"}, want: true},
		"only the newest write counts":                           {store: "100", written: []string{"100", "102"}, want: false},
		"versions of fakes, which are empty, count as visible":   {store: "", written: []string{""}, want: true},
		"a write to an object of another key hides nothing here": {store: "1", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			writes := NewWrites(&test.store)
			writes.Record(cache.NewObjectName("default", "another-foo"), "1000")
			for _, version := range test.written {
				writes.Record(key, version)
			}
			if got := writes.Visible(key); got != test.want {
				t.Errorf("Visible() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestVisibleAgainOnceTheStoreCatchesUp(t *testing.T) {
	key := cache.NewObjectName("default", "example-foo")
	store := storeAt("9")
	writes := NewWrites(&store)
	writes.Record(key, "10")
	if writes.Visible(key) {
		t.Error("visible while the store is behind")
	}
	store = "10"
	if !writes.Visible(key) {
		t.Error("not visible although the store has caught up")
	}
	store = "9" // A store that forgets, as one does that is restored from a backup, must not block the key for ever.
	if !writes.Visible(key) {
		t.Error("a write that was visible once is hidden again")
	}
}

func TestAWriteThatNeverShowsIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		key := cache.NewObjectName("default", "example-foo")
		store := storeAt("9")
		writes := NewWrites(&store)
		writes.Record(key, "10")
		time.Sleep(mostPatience - time.Second) // Just before patience ends.
		if writes.Visible(key) {
			t.Error("visible although the store is behind")
		}
		time.Sleep(time.Second) // Its end.
		if !writes.Visible(key) {
			t.Error("still waited for")
		}
	})
}

func TestForget(t *testing.T) {
	key := cache.NewObjectName("default", "example-foo")
	store := storeAt("9")
	writes := NewWrites(&store)
	writes.Record(key, "10")
	writes.Forget(key)
	if !writes.Visible(key) {
		t.Error("a forgotten write still hides the store")
	}
}

func TestChecksAgainstTheLiveFoo(t *testing.T) {
	cached := &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-foo", UID: "uid", Generation: 2}}
	seenTo := cached.DeepCopy()
	seenTo.Status.ObservedGeneration = 2
	var notFound error = apierrors.NewNotFound(schema.GroupResource{}, "example-foo")
	for name, test := range map[string]struct {
		change func(*samplev1alpha1.Foo)
		want   error
	}{
		"it is the same":             {func(*samplev1alpha1.Foo) {}, nil},
		"it was changed":             {func(foo *samplev1alpha1.Foo) { foo.Generation = 3 }, ErrBehind},
		"it was replaced":            {func(foo *samplev1alpha1.Foo) { foo.UID = "new-uid" }, ErrBehind},
		"it is being deleted":        {func(foo *samplev1alpha1.Foo) { foo.DeletionTimestamp = &metav1.Time{} }, ErrBehind},
		"it is gone":                 {func(foo *samplev1alpha1.Foo) { foo.Name = "another" }, notFound},
		"its status alone was moved": {func(foo *samplev1alpha1.Foo) { foo.Status.ObservedGeneration = 2 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			live := cached.DeepCopy()
			test.change(live)
			client := fake.NewSimpleClientset()
			client.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.(clienttesting.GetAction).GetName() != live.Name {
					return true, nil, notFound
				}
				return true, live, nil
			})
			foos := client.SamplecontrollerV1alpha1()
			for _, err := range []error{CheckNewest(t.Context(), foos, cached), CheckRepair(t.Context(), foos, seenTo)} {
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			}
			client.ClearActions()
			if err := CheckRepair(t.Context(), foos, cached); err != nil || len(client.Actions()) > 0 {
				t.Errorf("CheckRepair() of a new wish = %v after %v, want no request", err, client.Actions())
			}
		})
	}
}
