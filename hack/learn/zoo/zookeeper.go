// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var zookeeper = animal{
	name:      "zookeeper",
	source:    "https://github.com/pravega/zookeeper-operator/issues/314",
	happened:  "After a restart, the API server's cache still had an older spec, with fewer replicas: a Pod and its volume were deleted.",
	mechanism: "The spec in the cache is obeyed, although the StatefulSet was already set from a newer one.",
	mend:      "The StatefulSet has the generation that it was set from: with an older one, nothing is done. Before it creates one, it asks the API server.",
	promise:   simulation.Forward,
	program: func(mended bool) simulation.Program {
		return managed(zookeeperController{mended}.reconcile, &appsv1.StatefulSet{})
	},
	config: simulation.Config{Strict: []simulation.Promise{simulation.Forward}, ByDesign: isAdopted},
}

// zookeeperController gives each App a StatefulSet with its replicas.
type zookeeperController struct{ mended bool }

const generationAnnotation = "zoo.example.com/generation"

func (c zookeeperController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	desired, found := newStatefulSet(app), &appsv1.StatefulSet{}
	desired.Annotations = map[string]string{generationAnnotation: fmt.Sprint(app.Generation)}
	switch err := k.Get(ctx, client.ObjectKeyFromObject(app), found); {
	case apierrors.IsNotFound(err):
		return k.createOf(ctx, app, desired, c.mended)
	case err != nil || !metav1.IsControlledBy(found, app):
		return err
	}
	if set, _ := strconv.ParseInt(found.Annotations[generationAnnotation], 10, 64); c.mended && set > app.Generation {
		return fmt.Errorf("the StatefulSet was set from generation %d, and the cache has generation %d", set, app.Generation)
	}
	if found.Spec.Replicas != nil && *found.Spec.Replicas == app.Spec.Replicas {
		return nil
	}
	changed := found.DeepCopy()
	changed.Spec.Replicas = desired.Spec.Replicas
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, generationAnnotation, desired.Annotations[generationAnnotation])
	return k.patch(ctx, changed, found)
}
