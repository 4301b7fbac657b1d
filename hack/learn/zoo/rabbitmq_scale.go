// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var rabbitmqScale = animal{
	name:      "rabbitmq-scale",
	source:    "https://github.com/rabbitmq/cluster-operator/issues/758",
	happened:  "A cluster that must never be scaled down went from 1 replica to 3 and to 2, and ended with 2 or with 3.",
	mechanism: "A rule about changes is kept where changes are not seen: which states a cache has had depends on chance.",
	mend:      "The controller does what the spec says. Changes are forbidden in admission, which sees each of them.",
	promise:   simulation.SameEnd,
	program: func(mended bool) simulation.Program {
		return managed(rabbitmqScaleController{mended}.reconcile, &appsv1.StatefulSet{})
	},
	config: simulation.Config{ByDesign: exceptReplicas},
}

// exceptReplicas drops what the controller does not correct if others change it: all but the number of replicas.
func exceptReplicas(o *apiserver.Object, owners []*apiserver.Object) bool {
	if replicas, isSet, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); isSet && o.GetKind() == "StatefulSet" {
		o.Object["spec"] = map[string]any{"replicas": replicas}
	}
	return isAdopted(o, owners)
}

// rabbitmqScaleController gives each App a StatefulSet with its replicas, or with more.
type rabbitmqScaleController struct{ mended bool }

func (c rabbitmqScaleController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	found := &appsv1.StatefulSet{}
	switch err := k.Get(ctx, client.ObjectKeyFromObject(app), found); {
	case apierrors.IsNotFound(err):
		return k.createNamed(ctx, newStatefulSet(app), app.Name)
	case err != nil || !metav1.IsControlledBy(found, app):
		return err
	}
	if *found.Spec.Replicas == app.Spec.Replicas || !c.mended && *found.Spec.Replicas > app.Spec.Replicas {
		return nil
	}
	changed := found.DeepCopy()
	changed.Spec.Replicas = &app.Spec.Replicas
	return k.patch(ctx, changed, found)
}
