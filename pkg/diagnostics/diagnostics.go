// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnostics explains the errors of requests to the API server: each explanation says what to do.
package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// InstallCommand installs the CustomResourceDefinition of the controller.
const InstallCommand = "kubectl apply -f artifacts/examples/crd.yaml"

// Explain returns an error that says what is wrong and what to do. It wraps err.
func Explain(err error) error {
	custom := customResource(err)
	switch {
	case apierrors.IsNotFound(err) && custom != "":
		return fmt.Errorf("the CustomResourceDefinition %s is not installed; install it with: %s (%w)",
			custom, InstallCommand, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the address seems not to be that of a Kubernetes API server; "+
			"check the path in -master, or in the server of the kubeconfig: %w", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("permission denied; grant this verb and resource with RBAC: %w", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server rejected the credentials; "+
			"check the user in the kubeconfig, or the Pod's service account: %w", err)
	case apierrors.ReasonForError(err) != "":
		return fmt.Errorf("the API server returned an error: %w", err)
	case strings.Contains(err.Error(), "getting credentials: "): // It does not wrap the plugin's error.
		return fmt.Errorf("the credential plugin of the kubeconfig failed; install it or log in with it: %w", err)
	case errors.As(err, new(net.Error)):
		return fmt.Errorf("the API server cannot be reached; check -kubeconfig, -master and the network: %w", err)
	default:
		return fmt.Errorf("the API server's response cannot be decoded; "+
			"if the error names a field of an object, fix that: %w", err)
	}
}

// customResource returns the custom resource, with its group, that an error is about, or "" if it is about none.
func customResource(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || scheme.Scheme.IsGroupRegistered(status.ErrStatus.Details.Group) {
		return ""
	}
	return status.ErrStatus.Details.Kind + "." + status.ErrStatus.Details.Group
}

// CheckConnection makes one request, so that a wrong address or wrong credentials end the process at once.
// Another error of the API server is no reason to end: the informers retry.
func CheckConnection(ctx context.Context, client rest.Interface) error {
	result := make(chan error, 1)
	go func() { result <- client.Get().AbsPath("/version").Timeout(10 * time.Second).Do(ctx).Error() }()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done(): // A credential plugin, which may wait for somebody to log in, does not end with it.
		return nil
	}
	ends := apierrors.ReasonForError(err) == "" || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
	if err == nil || !ends || errors.Is(err, context.Canceled) {
		return nil
	}
	return Explain(err)
}

// HandleWatchErrors explains and logs the errors of lists and watches of informers, which must not have
// started. It returns a function that returns the last error, at first that there was no response.
func HandleWatchErrors(informers ...cache.SharedIndexInformer) (last func() error) {
	var lastErr atomic.Pointer[error]
	lastErr.Store(new(errors.New("the API server has not responded to all lists")))
	handle := func(ctx context.Context, reflector *cache.Reflector, err error) {
		ended := errors.Is(err, io.EOF) || errors.Is(err, context.Canceled)
		if ended || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // That a watch ends is no error.
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
			return
		}
		err = Explain(err)
		klog.FromContext(ctx).Error(err, "Failed to list or watch; retrying", "type", reflector.TypeDescription())
		lastErr.Store(&err)
	}
	for _, informer := range informers {
		utilruntime.Must(informer.SetWatchErrorHandlerWithContext(handle))
	}
	return func() error { return *lastErr.Load() }
}

// WaitForCacheSync returns the last error of a watch if the caches have not synced after the timeout, which is that of -cache-sync-timeout.
func WaitForCacheSync(
	ctx context.Context, timeout time.Duration, lastWatchError func() error, synced []cache.DoneChecker,
) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if cache.WaitFor(timeoutCtx, "", synced...) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the informer caches have not synced within -cache-sync-timeout=%s; the last error: %w",
		timeout, lastWatchError())
}
