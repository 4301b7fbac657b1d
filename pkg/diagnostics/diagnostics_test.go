// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package diagnostics

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestExplain(t *testing.T) {
	custom := schema.GroupResource{Group: "example.com", Resource: "examples"}
	const network = "check -kubeconfig, -master and the network"
	wrongType := json.Unmarshal([]byte(`{"spec": {"replicas": "3"}}`), &appsv1.Deployment{}) // As client-go decodes JSON.
	requestError := func(err error) error { return &url.Error{Op: "Get", URL: "https://a", Err: err} }
	tests := map[string]struct {
		err  error
		want string // It explains no other error.
	}{
		"CRD not installed":       {pageNotFound(custom), "CustomResourceDefinition examples.example.com is not installed; install it with: kubectl apply -f artifacts/examples/crd.yaml"},
		"not an API server":       {pageNotFound(appsv1.Resource("deployments")), "check the path in -master"},
		"permission missing":      {apierrors.NewForbidden(custom, "", errors.New("cannot list")), "RBAC"},
		"credentials rejected":    {apierrors.NewUnauthorized("invalid bearer token"), "rejected the credentials"},
		"error of the API server": {apierrors.NewInternalError(errors.New("etcd")), "returned an error"},
		"connection refused":      {requestError(syscall.ECONNREFUSED), network},
		"timeout":                 {requestError(context.DeadlineExceeded), network},
		"plugin not installed":    {requestError(errors.New("getting credentials: exec: executable helper not found")), "credential plugin"},
		"unknown authority":       {requestError(x509.UnknownAuthorityError{}), network},
		"value of another type":   {wrongType, "DeploymentSpec.spec.replicas"},
	}
	for name, test := range tests {
		explained := Explain(fmt.Errorf("failed to list: %w", test.err))
		if !errors.Is(explained, test.err) {
			t.Errorf("%s: Explain() = %v does not wrap the error", name, explained)
		}
		for _, other := range tests {
			if got, want := strings.Contains(explained.Error(), other.want), other.want == test.want; got != want {
				t.Errorf("%s: Explain() = %v contains %q: %t, want %t", name, explained, other.want, got, want)
			}
		}
	}
}

// pageNotFound is client-go's error for the page of an HTTP server that is not found.
func pageNotFound(resource schema.GroupResource) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "", "404 page not found", 0, true)
}

func newReflector(object runtime.Object) *cache.Reflector {
	return cache.NewReflector(&cache.ListWatch{}, object, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
}

// handledInformer is an informer that calls its watch error handler when the test does.
type handledInformer struct {
	cache.SharedIndexInformer
	handle cache.WatchErrorHandlerWithContext
}

func (i *handledInformer) SetWatchErrorHandlerWithContext(handle cache.WatchErrorHandlerWithContext) error {
	i.handle = handle
	return nil
}

func TestHandleWatchErrors(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	informer, reflector := &handledInformer{}, newReflector(&appsv1.Deployment{})
	last := HandleWatchErrors(informer)
	if err := last(); err == nil {
		t.Error("last() = nil before any error, want that there is no response yet")
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "examples"}, "")
	informer.handle(ctx, reflector, apierrors.NewUnauthorized("invalid bearer token"))
	informer.handle(ctx, reflector, notFound)
	// How a watch usually ends.
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone}}
	for _, err := range []error{io.EOF, context.Canceled, apierrors.NewResourceExpired("too old"), gone} {
		informer.handle(ctx, reflector, err)
	}
	if got := last(); !errors.Is(got, notFound) || !strings.Contains(got.Error(), InstallCommand) {
		t.Errorf("last() = %v, want %v with what to do", got, notFound)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if strings.Count(log, "Failed to list or watch") != 2 || !strings.Contains(log, InstallCommand) {
		t.Errorf("log = %s, want the two errors with what to do", log)
	}
}

func TestCheckConnection(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		want   string
	}{
		"ok":            {http.StatusOK, ""},
		"not ready yet": {http.StatusServiceUnavailable, ""},
		"forbidden":     {http.StatusForbidden, ""},
		"unauthorized":  {http.StatusUnauthorized, "credentials"},
		"wrong path":    {http.StatusNotFound, "check the path in -master"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) }))
			defer server.Close()
			client := discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}).RESTClient()
			err := CheckConnection(t.Context(), client)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("CheckConnection() = %v, want %q", err, test.want)
			}
			server.Close()
			if err := CheckConnection(t.Context(), client); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("CheckConnection() = %v without a server", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := CheckConnection(ctx, client); err != nil {
				t.Errorf("CheckConnection() = %v when the process is told to end", err)
			}
		})
	}
}

// hangingTransport never gets a response.
type hangingTransport struct{}

func (hangingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func TestCheckConnectionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: it advances when all wait.
		config, start := &rest.Config{Host: "http://hanging", QPS: -1, Transport: hangingTransport{}}, time.Now()
		err := CheckConnection(t.Context(), discovery.NewDiscoveryClientForConfigOrDie(config).RESTClient())
		if err == nil || !strings.Contains(err.Error(), "cannot be reached") || time.Since(start) != 10*time.Second {
			t.Errorf("CheckConnection() = %v after %s, want that the API server cannot be reached, after 10s", err, time.Since(start))
		}
	})
}

// pluginTransport waits for a credential plugin, whatever the context of the request says.
type pluginTransport struct{ done chan struct{} }

func (p pluginTransport) RoundTrip(*http.Request) (*http.Response, error) {
	<-p.done
	return nil, errors.New("getting credentials: exec: killed")
}

func TestCheckConnectionEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := pluginTransport{make(chan struct{})}
		defer close(plugin.done)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		config, start := &rest.Config{Host: "http://plugin", QPS: -1, Transport: plugin}, time.Now()
		err := CheckConnection(ctx, discovery.NewDiscoveryClientForConfigOrDie(config).RESTClient())
		if err != nil || time.Since(start) != time.Second {
			t.Errorf("CheckConnection() = %v after %s, want nil after 1s", err, time.Since(start))
		}
	})
}

// neverSynced is a cache that never syncs.
type neverSynced struct{}

func (neverSynced) Name() string          { return "never" }
func (neverSynced) Done() <-chan struct{} { return nil }

func TestWaitForCacheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lastError := errors.New("the watch is forbidden")
		wait := func(ctx context.Context, synced ...cache.DoneChecker) error {
			return WaitForCacheSync(ctx, time.Minute, func() error { return lastError }, synced)
		}
		start := time.Now()
		if err := wait(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("without a cache, it is %v after %s", err, time.Since(start))
		}
		if err := wait(t.Context(), neverSynced{}); !errors.Is(err, lastError) || time.Since(start) != time.Minute {
			t.Errorf("WaitForCacheSync() = %v after %s, want %v after 1m", err, time.Since(start), lastError)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wait(ctx, neverSynced{}); err != nil {
			t.Errorf("WaitForCacheSync() = %v, although its context is done", err)
		}
	})
}
