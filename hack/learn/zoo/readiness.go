// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"k8s.io/sample-controller/hack/simulation"
)

var readiness = animal{
	name:      "readiness",
	source:    "https://github.com/NVIDIA/cluster-readiness-engine/issues/214",
	happened:  "An object of a user that had the name of a child was recorded as the child, and deleted with its owner.",
	mechanism: "AlreadyExists counts as success, whoever owns what exists.",
	mend:      "What exists is recorded, and later deleted, only if the App controls it.",
	promise:   simulation.OwnObjects,
	program: func(mended bool) simulation.Program {
		return managed(readinessController{mended}.reconcile, &corev1.ConfigMap{})
	},
	config: simulation.Config{Examples: []string{"testdata/apps.yaml", "testdata/foreign.yaml"}, ByDesign: isAdopted},
}

// readinessController gives each App a ConfigMap, records it in the status, and deletes it before the App goes.
type readinessController struct{ mended bool }

func (c readinessController) reconcile(ctx context.Context, k kube, app *App) error {
	changed := app.DeepCopy()
	switch {
	case app.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(changed, finalizer):
		if err := c.cleanUp(ctx, k, app); err != nil {
			return err
		}
		return k.patch(ctx, changed, app)
	case app.DeletionTimestamp != nil:
		return nil
	case controllerutil.AddFinalizer(changed, finalizer):
		return k.patch(ctx, changed, app)
	}
	child := newConfigMap(app, app.Name)
	err := k.Get(ctx, client.ObjectKeyFromObject(child), child)
	if apierrors.IsNotFound(err) {
		err = k.Create(ctx, child)
	}
	if apierrors.IsAlreadyExists(err) {
		err = k.live.Get(ctx, client.ObjectKeyFromObject(child), child)
	}
	if err != nil || c.mended && !metav1.IsControlledBy(child, app) {
		return err
	}
	return k.patchStatus(ctx, app, AppStatus{Child: child.Name})
}

func (c readinessController) cleanUp(ctx context.Context, k kube, app *App) error {
	child := &corev1.ConfigMap{}
	if app.Status.Child == "" {
		return nil
	}
	err := k.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: app.Status.Child}, child)
	if err == nil && (!c.mended || metav1.IsControlledBy(child, app)) {
		err = k.Delete(ctx, child, client.Preconditions{UID: &child.UID})
	}
	return client.IgnoreNotFound(err)
}
