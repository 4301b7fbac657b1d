// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustererrors says in one line what stands between this process and the API server, and what to do about it.
package clustererrors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// InstallCommand is the command that makes Foos known to a cluster.
const InstallCommand = "kubectl apply -f artifacts/examples/crd.yaml"

// repeatPeriod is how often an error that goes on is logged again.
const repeatPeriod = time.Minute

// Explain returns an error that says in one line what is wrong and what to do. It wraps err.
func Explain(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the CustomResourceDefinition of Foo is not installed; install it with: %s (%w)", InstallCommand, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("a permission is missing; grant the verb and resource named here with RBAC: %w", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials; check the user in the kubeconfig, or the Pod's service account: %w", err)
	case apierrors.ReasonForError(err) != "":
		return fmt.Errorf("the API server answers with an error: %w", err)
	case errors.As(err, new(*url.Error)), errors.As(err, new(net.Error)):
		return fmt.Errorf("the API server cannot be reached; check -kubeconfig, -master and the network: %w", err)
	default:
		return fmt.Errorf("what the API server answers cannot be read: %w", err)
	}
}

// Reporter logs the errors of informers' watches, each in one line that says what to do, and remembers the newest.
type Reporter struct {
	lock     sync.Mutex
	newest   error
	reported map[problem]time.Time
}

// problem is what counts as one and the same error that goes on.
type problem struct {
	objects string
	reason  metav1.StatusReason
}

// NewReporter returns a reporter that has seen no error yet.
func NewReporter() *Reporter {
	return &Reporter{reported: map[problem]time.Time{}}
}

// HandleWatchError is a cache.WatchErrorHandlerWithContext. An error is logged at once, and again every minute while it
// goes on; the ordinary ends of watches are not errors.
func (r *Reporter) HandleWatchError(ctx context.Context, reflector *cache.Reflector, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		return
	}
	explained := Explain(err)
	problem := problem{objects: reflector.TypeDescription(), reason: apierrors.ReasonForError(err)}
	r.lock.Lock()
	r.newest = explained
	due := time.Since(r.reported[problem]) >= repeatPeriod
	if due {
		r.reported[problem] = time.Now()
	}
	r.lock.Unlock()
	if due {
		klog.FromContext(ctx).Error(explained, "Watch failed; retrying", "objects", problem.objects)
	}
}

// Newest returns the newest error that was reported, or nil if there was none.
func (r *Reporter) Newest() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.newest
}
