// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
				control := newControl(nil, client, consistency.NewStore(klog.Background(), nil))
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

// A creation that is not the first one of a Foo, or of its generation, is preceded by a live read of the Foo.
func TestRepeatedCreation(t *testing.T) {
	foo, deployment := newFoo(1), &appsv1.Deployment{}
	kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
	kubeClient.AddReactor("create", "deployments", returning(deployment, nil))
	sampleClient.AddReactor("get", "foos", returning(foo, nil))
	control := newControl(kubeClient, sampleClient, consistency.NewStore(klog.Background(), nil))
	notSeen, observed := newFoo(2), newFoo(3)
	notSeen.Status.ObservedGeneration = -1 // the default
	observed.Status.ObservedGeneration = 1
	synctest.Test(t, func(t *testing.T) {
		for i, test := range []struct {
			foo       *samplev1alpha1.Foo
			liveReads int // so far
		}{{foo, 0}, {foo, 1}, {notSeen, 1}, {observed, 2}} {
			if _, err := control.CreateOrPatchDeployment(t.Context(), test.foo, nil, deployment); err != nil {
				t.Error(err)
			}
			if got := len(sampleClient.Actions()); got != test.liveReads {
				t.Errorf("creation %d: %d live reads, want %d", i+1, got, test.liveReads)
			}
			time.Sleep(time.Second) // The clock is fake: the write pause is over.
		}
	})
}

// Who answered decides, not the code: a webhook may deny with any code from 400 to 499, and any reason, and the API server keeps both.
func TestErrors(t *testing.T) {
	resource := appsv1.Resource("deployments")
	terminating := apierrors.NewForbidden(resource, "example", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	denied := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	const (
		webhook = `admission webhook "policy.example.com" denied the request: not in this team`
		policy  = `deployments.apps "example" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`
	)
	type test struct {
		err                 error
		rejection, conflict bool
	}
	tests := map[string]test{
		"nothing":               {nil, false, false},
		"invalid":               {apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "example", nil), true, false},
		"forbidden":             {apierrors.NewForbidden(resource, "example", errors.New("exceeded quota")), true, false},
		"bad request":           {apierrors.NewBadRequest("unknown field"), true, false},
		"too large":             {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true, false},
		"wrapped":               {fmt.Errorf("creating: %w", denied(409, "", webhook)), true, false},
		"namespace terminating": {terminating, false, true},
		"conflict":              {apierrors.NewConflict(resource, "example", errors.New("modified")), false, true},
		"not found":             {apierrors.NewNotFound(resource, "example"), false, true},
		"unavailable":           {apierrors.NewServiceUnavailable("etcd has no leader"), false, false},
		"unauthorized":          {apierrors.NewUnauthorized("token expired"), false, false},
		"too many requests":     {apierrors.NewTooManyRequests("try again", 1), false, false},
		"webhook times out":     {apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": timeout`)), false, false},
		"lost connection":       {io.EOF, false, false},
		"policy, 401":           {denied(401, metav1.StatusReasonUnauthorized, policy), true, false},
	}
	for code := int32(400); code < 500; code++ {
		tests[fmt.Sprintf("webhook, %d", code)] = test{denied(code, "", webhook), true, false}
	}
	for _, reason := range []metav1.StatusReason{metav1.StatusReasonAlreadyExists, metav1.StatusReasonNotFound, metav1.StatusReasonConflict} {
		tests["webhook, "+string(reason)] = test{denied(400, reason, webhook), true, false}
	}
	for _, code := range []int32{500, 503, 504} {
		tests[fmt.Sprintf("webhook, %d", code)] = test{denied(code, "", webhook), false, false}
	}
	for name, test := range tests {
		if got := IsRejection(test.err); got != test.rejection {
			t.Errorf("%s: IsRejection() = %v", name, got)
		}
		if got := IsConflict(test.err, 0); got != test.conflict {
			t.Errorf("%s: IsConflict() = %v", name, got)
		}
	}
	modified := tests["conflict"].err
	if !IsConflict(modified, 9) || IsConflict(modified, 10) || !IsConflict(terminating, 1000) {
		t.Error("a conflict is a failure once there were ten in a row, and in a namespace that is being deleted never")
	}
}

// A webhook that denies the update of a status with 404 says nothing about the CRD.
func TestStatusIsDenied(t *testing.T) {
	foo, client := newFoo(1), &fake.Clientset{}
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "x" denied the request`}}
	client.AddReactor("update", "foos", returning(nil, err))
	client.AddReactor("get", "foos", returning(foo, nil))
	control := newControl(nil, client, consistency.NewStore(klog.Background(), nil))
	if _, got := control.UpdateFooStatus(t.Context(), foo, samplev1alpha1.FooStatus{Replicas: 1}); !errors.Is(got, err) {
		t.Errorf("UpdateFooStatus() = %v, want the webhook's error", got)
	}
}
