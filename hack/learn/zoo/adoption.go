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
)

var adoption = animal{
	name:      "adoption",
	source:    "https://github.com/kubernetes/kubernetes/issues/122400",
	happened:  "The StatefulSet controller added owner references to volume claims without regard to who else controls them.",
	mechanism: "The controller of an object is replaced, although it has one: two owners that want it take it from each other without end.",
	mend:      "What has another controller is left alone.",
	promise:   simulation.BoundedWork,
	program: func(mended bool) simulation.Program {
		return managed(adoptionController{mended}.reconcile, &corev1.ConfigMap{})
	},
	config: simulation.Config{
		Examples: []string{"testdata/named.yaml"},
		Exempt:   []simulation.Promise{simulation.OwnObjects}, // It adopts what nobody controls.
	},
}

// adoptionController gives each App a ConfigMap with the name that its spec has, and deletes those with other names.
type adoptionController struct{ mended bool }

func (c adoptionController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	name := app.Spec.ChildName
	its, err := configMapsOf(ctx, k, app)
	if err != nil {
		return err
	}
	for _, other := range its {
		if other.Name != name {
			return client.IgnoreNotFound(k.Delete(ctx, &other))
		}
	}
	if name == "" {
		return nil
	}
	desired, found := newConfigMap(app, name), &corev1.ConfigMap{}
	switch err := k.Get(ctx, client.ObjectKeyFromObject(desired), found); {
	case apierrors.IsNotFound(err):
		return k.createNamed(ctx, desired, name)
	case err != nil || metav1.IsControlledBy(found, app):
		return err
	case c.mended && metav1.GetControllerOf(found) != nil:
		return nil
	}
	changed := found.DeepCopy()
	changed.OwnerReferences = desired.OwnerReferences
	return k.patch(ctx, changed, found)
}
