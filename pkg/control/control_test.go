// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/diagnostics"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
)

func requests(actions []clienttesting.Action) (requests []string) {
	for _, action := range actions {
		resource := action.GetResource().Resource
		if subresource := action.GetSubresource(); subresource != "" {
			resource += "/" + subresource
		}
		requests = append(requests, action.GetVerb()+" "+resource)
	}
	return requests
}

// That an older CRD does not store a status, or parts of it, is no error, and the log says once what to do.
func TestOlderCRD(t *testing.T) {
	foo := newFoo(1)
	for name, test := range map[string]struct {
		response runtime.Object
		err      error
		live     error
		want     string // the requests
		wantErr  bool
		logged   int
	}{
		"without status subresource":   {nil, apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "foo"), nil, "update foos/status, get foos", false, 1},
		"with availableReplicas alone": {foo, nil, nil, "update foos/status", false, 1},
		"Foo is gone": {nil, apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "foo"),
			apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "foo"), "update foos/status, get foos", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &fake.Clientset{}
				client.AddReactor("update", "foos", returning(test.response, test.err))
				client.AddReactor("get", "foos", returning(foo, test.live))
				control := newControl(client)
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
				for range 3 {
					client.ClearActions()
					_, err := control.UpdateFooStatus(klog.NewContext(t.Context(), logger), foo, samplev1alpha1.FooStatus{Replicas: 1})
					if (err != nil) != test.wantErr {
						t.Fatal(err)
					}
					if got := strings.Join(requests(client.Actions()), ", "); got != test.want {
						t.Errorf("requests = %q, want %q", got, test.want)
					}
					time.Sleep(time.Second) // The clock is fake: the pause after an update of the status is over.
				}
				log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				if count := strings.Count(log, diagnostics.InstallCommand); count != test.logged {
					t.Errorf("the log says %d times how to update the CRD, want %d", count, test.logged)
				}
				if strings.Contains(test.want, "get foos") && strings.Contains(log, "Updated status") {
					t.Error("the log says that the status was updated, but it was not found")
				}
				for _, action := range client.Actions() { // Otherwise client-go would log a warning for each field.
					if update, ok := action.(clienttesting.UpdateActionImpl); ok && update.UpdateOptions.FieldValidation != metav1.FieldValidationIgnore {
						t.Errorf("the status is written with field validation %q", update.UpdateOptions.FieldValidation)
					}
				}
			})
		})
	}
}

// A webhook that denies the update of a status with 404 says nothing about the CRD.
func TestStatusIsDenied(t *testing.T) {
	foo, client := newFoo(1), &fake.Clientset{}
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "x" denied the request`}}
	client.AddReactor("update", "foos", returning(nil, err))
	client.AddReactor("get", "foos", returning(foo, nil))
	control := newControl(client)
	if _, got := control.UpdateFooStatus(t.Context(), foo, samplev1alpha1.FooStatus{Replicas: 1}); !errors.Is(got, err) {
		t.Errorf("UpdateFooStatus() = %v, want the webhook's error", got)
	}
}

// After a conflict, the cache is stale until it has what a live read shows.
func TestConflict(t *testing.T) {
	foo, live, client := newFoo(1), newFoo(1), &fake.Clientset{}
	live.ResourceVersion = "11"
	client.AddReactor("update", "foos", returning(nil, apierrors.NewConflict(samplev1alpha1.Resource("foos"), "foo", nil)))
	client.AddReactor("get", "foos", returning(live, nil))
	control := newControl(client)
	_, err := control.UpdateFooStatus(t.Context(), foo, samplev1alpha1.FooStatus{Replicas: 1})
	ready := control.ConsistencyStore.EnsureReady(cache.MetaObjectToName(foo))
	if !apierrors.IsConflict(err) || !errors.Is(ready, consistency.ErrStale) {
		t.Errorf("UpdateFooStatus() = %v, and then EnsureReady() = %v", err, ready)
	}
}

// The status is updated at most twice a second, whether or not the API server accepts it.
func TestStatusUpdatesArePaced(t *testing.T) {
	foos := samplev1alpha1.Resource("foos")
	for name, err := range map[string]error{
		"accepted": nil, "fails": apierrors.NewServiceUnavailable(""), "denied": apierrors.NewForbidden(foos, "foo", nil),
	} {
		synctest.Test(t, func(t *testing.T) { // The clock is fake: a sleep advances it, and takes no time.
			foo, client := newFoo(1), &fake.Clientset{}
			client.AddReactor("update", "foos", returning(foo, err))
			control := newControl(client)
			for i := range 4 { // Each quarter of a second.
				_, got := control.UpdateFooStatus(t.Context(), foo, samplev1alpha1.FooStatus{Replicas: 1})
				if errors.Is(got, ErrPaused) != (i%2 == 1) {
					t.Errorf("%s: update %d: error = %v, want ErrPaused for every second one", name, i, got)
				}
				time.Sleep(250 * time.Millisecond)
			}
			if got := len(client.Actions()); got != 2 {
				t.Errorf("%s: %d requests, want 2", name, got)
			}
		})
	}
}
