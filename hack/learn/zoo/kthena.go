// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var kthena = animal{
	name:      "kthena",
	source:    "https://github.com/volcano-sh/kthena/issues/1793",
	happened:  "A controller that has lost its Lease goes on beside its successor: found by reading the code.",
	mechanism: "The controllers run with the context of the process, and OnStoppedLeading only logs.",
	mend:      "They run with the context of the leader, the process ends, and a client that does not hold the Lease sends no writes.",
	promise:   simulation.LeaderWrites,
	program:   func(mended bool) simulation.Program { return kthenaController{mended}.run },
	config:    simulation.Config{Instances: 2, ByDesign: isAdopted},
}

// kthenaController gives each App a ConfigMap. The leader does.
type kthenaController struct{ mended bool }

const renewDeadline = 10 * time.Second

func (c kthenaController) run(ctx context.Context, config *rest.Config) error {
	renewed := &atomic.Pointer[time.Time]{}
	if config = rest.CopyConfig(config); c.mended {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next, renewed} })
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kthena"},
			Client:    kubernetes.NewForConfigOrDie(config).CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: config.UserAgent},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: renewDeadline, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !c.mended {
					leading = ctx
				}
				if err := managed(c.reconcile, &corev1.ConfigMap{})(leading, config); err != nil {
					klog.FromContext(ctx).Error(err, "The controllers have ended")
				}
			},
			OnStoppedLeading: func() { klog.FromContext(ctx).Info("The Lease is lost") },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	if c.mended && ctx.Err() == nil {
		return errors.New("the Lease is lost")
	}
	<-ctx.Done()
	return nil
}

func (c kthenaController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	err := k.Get(ctx, client.ObjectKeyFromObject(app), &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		return k.createNamed(ctx, newConfigMap(app, app.Name), app.Name)
	}
	return err
}

// fence lets writes pass only while the Lease is known to be held: the context of the leader ends later, when it could not be renewed for a
// while.
type fence struct {
	next    http.RoundTripper
	renewed *atomic.Pointer[time.Time] // when the last renewal was sent, if it has succeeded
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return f.next.RoundTrip(r)
	}
	now, isLease := time.Now(), strings.Contains(r.URL.Path, "/leases")
	if renewed := f.renewed.Load(); !isLease && (renewed == nil || now.Sub(*renewed) > renewDeadline) {
		return nil, errors.New("the Lease is not held")
	}
	response, err := f.next.RoundTrip(r)
	switch {
	case isLease && err == nil && response.StatusCode < http.StatusMultipleChoices:
		f.renewed.Store(&now)
	case isLease:
		f.renewed.Store(nil)
	}
	return response, err
}
