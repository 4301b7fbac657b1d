// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"k8s.io/sample-controller/hack/simulation"
)

var rabbitmqDeletion = animal{
	name:      "rabbitmq-deletion",
	source:    "https://github.com/rabbitmq/cluster-operator/issues/648",
	happened:  "After a restart, the API server's cache still had a cluster that was being deleted: the StatefulSet of its successor was deleted.",
	mechanism: "The finalizer deletes by name, whoever has an object of that name by now.",
	mend:      "It deletes only what the App controls, and only the object with the UID that the cache has. Before it creates one, it asks the API server.",
	promise:   simulation.Forward,
	program: func(mended bool) simulation.Program {
		return managed(rabbitmqDeletionController{mended}.reconcile, &appsv1.StatefulSet{})
	},
	config: simulation.Config{Objects: 1, Strict: []simulation.Promise{simulation.Forward}, ByDesign: isAdopted}, // It is deleted and created again often.
}

// rabbitmqDeletionController gives each App a StatefulSet, and deletes it before the App goes.
type rabbitmqDeletionController struct{ mended bool }

func (c rabbitmqDeletionController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return c.finalize(ctx, k, app)
	}
	changed := app.DeepCopy()
	if controllerutil.AddFinalizer(changed, finalizer) {
		return k.patch(ctx, changed, app)
	}
	err := k.Get(ctx, client.ObjectKeyFromObject(app), &appsv1.StatefulSet{})
	if apierrors.IsNotFound(err) {
		return k.createOf(ctx, app, newStatefulSet(app), c.mended)
	}
	return err
}

func (c rabbitmqDeletionController) finalize(ctx context.Context, k kube, app *App) error {
	changed, child := app.DeepCopy(), &appsv1.StatefulSet{}
	if !controllerutil.RemoveFinalizer(changed, finalizer) {
		return nil
	}
	err := k.Get(ctx, client.ObjectKeyFromObject(app), child)
	switch {
	case err != nil:
	case !c.mended:
		err = k.Delete(ctx, child)
	case metav1.IsControlledBy(child, app):
		err = k.Delete(ctx, child, client.Preconditions{UID: &child.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return k.patch(ctx, changed, app)
}
