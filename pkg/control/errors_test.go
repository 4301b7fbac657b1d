// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

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

// What is reported as overridden stays, with its text, for its generation.
func TestReported(t *testing.T) {
	const text = "spec.replicas: desired 2, found 5"
	ready := metav1.Condition{Type: samplev1alpha1.ConditionReady, Reason: "DeploymentOverridden", Message: text, ObservedGeneration: 3}
	for name, test := range map[string]struct {
		change func(*samplev1alpha1.Foo)
		want   bool
	}{
		"reported":           {func(*samplev1alpha1.Foo) {}, true},
		"another generation": {func(foo *samplev1alpha1.Foo) { foo.Generation = 4 }, false},
		"no status":          {func(foo *samplev1alpha1.Foo) { foo.Status = samplev1alpha1.FooStatus{} }, false},
		"another reason":     {func(foo *samplev1alpha1.Foo) { foo.Status.Conditions[0].Reason = "DeploymentRejected" }, false},
	} {
		foo := newFoo(3)
		foo.Status.Conditions = []metav1.Condition{ready}
		test.change(foo)
		if got := Reported(foo, "DeploymentOverridden"); (got != nil) != test.want || got != nil && got.Message != text {
			t.Errorf("%s: Reported() = %v, want it: %v", name, got, test.want)
		}
		want := StalledError{}
		if test.want {
			want = StalledError{"DeploymentOverridden", text, time.Second}
		}
		none := differ(&appsv1.Deployment{}, &appsv1.Deployment{})
		if got := newOwned(&kubefake.Clientset{}, newControl(nil)).overridden(foo, none, time.Second); got != want {
			t.Errorf("%s: overridden() = %v without differences, want %v", name, got, want)
		}
	}
}

func TestAnd(t *testing.T) {
	none, unknown := StalledError{}, StalledError{Reason: "Unknown"}
	soon, late := StalledError{"Soon", "", time.Second}, StalledError{"Late", "", time.Minute}
	for _, test := range []struct{ first, second, want StalledError }{
		{none, none, none},
		{none, late, late},
		{late, none, late},
		{soon, late, soon},
		{late, soon, StalledError{"Late", "", time.Second}},
		{unknown, soon, StalledError{"Unknown", "", time.Second}},
		{soon, unknown, soon},
	} {
		if got := test.first.And(test.second); got != test.want {
			t.Errorf("%v and %v is %v, want %v", test.first, test.second, got, test.want)
		}
	}
}
