// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	"k8s.io/sample-controller/pkg/kubeconfig"
)

// What an older CRD does not store of a status is kept, so that it is not written again and again, and the log says once what to do.
func TestStatusIsNotStored(t *testing.T) {
	notFound := apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "foo")
	for name, response := range map[string]clienttesting.ReactionFunc{
		"without status subresource": returning(nil, notFound),
		"without conditions":         returning(newFoo(1), nil),
	} {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			ctx := klog.NewContext(t.Context(), logger)
			client := &fake.Clientset{}
			client.AddReactor("update", "foos", response)
			client.AddReactor("get", "foos", returning(newFoo(1), nil))
			w, foo := New(nil, client, consistency.NewStore(nil), "", nil), newFoo(1)
			status := foostatus.New(foo, nil, foostatus.NameConflict("example"))
			for range 2 {
				if err := w.UpdateStatus(ctx, foo, status); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.WithWrittenStatus(foo).Status; !equality.Semantic.DeepEqual(got, status) {
				t.Errorf("WithWrittenStatus() has %v, want what was written", got)
			}
			recreated := newFoo(1)
			if recreated.UID = "new-uid"; w.WithWrittenStatus(recreated) != recreated {
				t.Error("WithWrittenStatus() of another Foo with the same name does not return the given Foo")
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if count := strings.Count(log, kubeconfig.InstallCommand); count != 1 {
				t.Errorf("the log says %d times how to update the CRD, want once", count)
			}
			client.PrependReactor("update", "foos", returning(&samplev1alpha1.Foo{Status: status}, nil)) // The CRD is updated.
			if err := w.UpdateStatus(ctx, foo, status); err != nil || w.WithWrittenStatus(foo) != foo {
				t.Errorf("UpdateStatus() = %v, and WithWrittenStatus() does not return the given Foo, once the status is stored", err)
			}
		})
	}
}

func TestUpdateStatusOfDeletedFoo(t *testing.T) {
	notFound := apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "foo")
	client := &fake.Clientset{}
	client.AddReactor("*", "foos", returning(nil, notFound))
	if err := New(nil, client, nil, "", nil).UpdateStatus(t.Context(), newFoo(1), samplev1alpha1.FooStatus{Replicas: 1}); !apierrors.IsNotFound(err) {
		t.Errorf("UpdateStatus() = %v, want NotFound", err)
	}
}
