// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var notebooks = animal{
	name:      "notebooks",
	source:    "https://github.com/kubeflow/notebooks/issues/1198",
	happened:  "A Workspace that was deleted and created again could not use what it had before: updates failed silently.",
	mechanism: "What still has the UID of the predecessor as its controller counts as another's.",
	mend:      "The successor of the same name takes over.",
	promise:   simulation.Generations,
	program: func(mended bool) simulation.Program {
		return managed(notebooksController{mended}.reconcile, &corev1.ConfigMap{})
	},
	config: simulation.Config{
		// It is late: otherwise, what the predecessor had goes. What is deleted in the foreground waits for it, too. The controller adopts what
		// nobody controls.
		Without: []apiserver.Controller{apiserver.GarbageCollector}, Exempt: []simulation.Promise{simulation.Deletion, simulation.SameEnd, simulation.OwnObjects},
	},
}

// notebooksController gives each App a ConfigMap, and reports it.
type notebooksController struct{ mended bool }

func (c notebooksController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	desired, found := newConfigMap(app, app.Name), &corev1.ConfigMap{}
	switch err := k.Get(ctx, client.ObjectKeyFromObject(desired), found); {
	case apierrors.IsNotFound(err):
		return k.createNamed(ctx, desired, app.Name)
	case err != nil:
		return err
	}
	switch owner := metav1.GetControllerOf(found); {
	case owner == nil || owner.UID == app.UID || c.mended && owner.Name == app.Name:
	case c.mended:
		return k.patchStatus(ctx, app, AppStatus{ObservedGeneration: app.Generation, Phase: "Waiting"})
	default:
		return nil
	}
	if !metav1.IsControlledBy(found, app) || found.Data["config"] != app.Spec.Config {
		changed := found.DeepCopy()
		changed.OwnerReferences, changed.Data = desired.OwnerReferences, desired.Data
		return k.patch(ctx, changed, found)
	}
	return k.patchStatus(ctx, app, AppStatus{ObservedGeneration: app.Generation, Phase: "Running"})
}
