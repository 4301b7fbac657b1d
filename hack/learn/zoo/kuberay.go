// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"

	"k8s.io/sample-controller/hack/simulation"
)

var kuberay = animal{
	name:      "kuberay",
	source:    "https://github.com/ray-project/kuberay/pull/639",
	happened:  "While a quota was exceeded, the status was updated without a pause: noticed in the review of the change that reported the error.",
	mechanism: "The text of the error has the name of the Pod, which is a new one in each try: the status changes, which causes the next try.",
	mend:      "The status has what does not change from try to try.",
	promise:   simulation.BoundedWork,
	program: func(mended bool) simulation.Program {
		return managed(kuberayController{mended}.reconcile, &corev1.ConfigMap{})
	},
}

// kuberayController gives each App a ConfigMap with a generated name, and reports why it could not.
type kuberayController struct{ mended bool }

func (c kuberayController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	found, err := configMapsOf(ctx, k, app)
	if err == nil && len(found) == 0 {
		found, err = configMapsOf(ctx, k.live, app)
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		child := newConfigMap(app, app.Name+"-"+rand.String(5)) // The API server generates it so, before a quota is checked.
		child.GenerateName = app.Name + "-"
		err = k.Create(ctx, child)
	}
	status := AppStatus{}
	switch {
	case err != nil && c.mended:
		status.Reason = string(apierrors.ReasonForError(err))
	case err != nil:
		status.Reason = err.Error()
	}
	if statusErr := k.patchStatus(ctx, app, status); statusErr != nil {
		return statusErr
	}
	return err
}
