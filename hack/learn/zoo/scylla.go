// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/sample-controller/hack/simulation"
)

var scylla = animal{
	name:      "scylla",
	source:    "https://github.com/scylladb/scylla-operator/issues/2492",
	happened:  "A second object was created while the cache was stale; one of the two was purged, and with it all that it owned: a datacenter.",
	mechanism: "The child has a generated name, so that the API server does not refuse a second one, and what is too much is deleted.",
	mend:      "The child has the name of its App.",
	promise:   simulation.NoTwins,
	program: func(mended bool) simulation.Program {
		return managed(scyllaController{mended}.reconcile, &corev1.ConfigMap{})
	},
	config: simulation.Config{Strict: []simulation.Promise{simulation.NoTwins}, ByDesign: isAdopted},
}

// scyllaController gives each App one ConfigMap.
type scyllaController struct{ mended bool }

func (c scyllaController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	found, err := configMapsOf(ctx, k, app)
	switch {
	case err != nil:
		return err
	case len(found) > 1:
		return k.Delete(ctx, &found[1])
	case len(found) == 1:
		return nil
	}
	child := newConfigMap(app, "")
	if c.mended {
		return k.createNamed(ctx, child, app.Name)
	}
	child.GenerateName = app.Name + "-"
	return k.Create(ctx, child)
}
