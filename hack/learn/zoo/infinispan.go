// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var infinispan = animal{
	name:      "infinispan",
	source:    "https://github.com/infinispan/infinispan-operator/issues/2166",
	happened:  "Fields of the status were overwritten with older ones, which left an Infinispan in an invalid state.",
	mechanism: "The status is patched without a resourceVersion, whatever the age of the object in the cache.",
	mend:      "The patch has the resourceVersion of the object that it was computed from: a conflict means to compute it again.",
	promise:   simulation.Generations,
	program:   func(mended bool) simulation.Program { return managed(infinispanController{mended}.reconcile) },
}

// infinispanController reports up to which generation Apps are reconciled.
type infinispanController struct{ mended bool }

func (c infinispanController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.Status.ObservedGeneration == app.Generation {
		return nil
	}
	changed, patch := app.DeepCopy(), client.MergeFrom(app)
	changed.Status = AppStatus{ObservedGeneration: app.Generation, Phase: "Running " + app.Spec.Config}
	if c.mended {
		patch = client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	}
	return k.Status().Patch(ctx, changed, patch)
}
