// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func TestExplainSaysWhatToDo(t *testing.T) {
	foos := samplev1alpha1.Resource("foos")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"the definition is missing":          {apierrors.NewNotFound(foos, ""), "kubectl apply -f artifacts/examples/crd.yaml"},
		"a permission is missing":            {apierrors.NewForbidden(foos, "", errors.New("cannot list")), "RBAC"},
		"the credentials are wrong":          {apierrors.NewUnauthorized("who are you"), "credentials"},
		"the API server is not well":         {apierrors.NewInternalError(errors.New("etcd")), "answers with an error"},
		"nobody answers":                     {&url.Error{Op: "Get", URL: "https://a", Err: syscall.ECONNREFUSED}, "-kubeconfig"},
		"an answer is not what it should be": {errors.New("cannot unmarshal"), "cannot be read"},
	} {
		wrapped := fmt.Errorf("failed to list: %w", test.err)
		explained := Explain(wrapped)
		if !strings.Contains(explained.Error(), test.want) || strings.Contains(explained.Error(), "\n") || !errors.Is(explained, test.err) {
			t.Errorf("%s: Explain() = %v, want one line with %q", name, explained, test.want)
		}
	}
}

func TestReporterRemembersTheNewestError(t *testing.T) {
	reporter := NewReporter()
	reflector := cache.NewReflector(&cache.ListWatch{}, &samplev1alpha1.Foo{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
	if reporter.Newest() != nil {
		t.Error("there is an error before any was reported")
	}
	reporter.HandleWatchError(t.Context(), reflector, apierrors.NewUnauthorized("who are you"))
	missing := apierrors.NewNotFound(samplev1alpha1.Resource("foos"), "")
	reporter.HandleWatchError(t.Context(), reflector, missing)
	reporter.HandleWatchError(t.Context(), reflector, io.EOF) // The ordinary end of a watch.
	if got := reporter.Newest(); !errors.Is(got, missing) {
		t.Errorf("Newest() = %v, want %v", got, missing)
	}
}
