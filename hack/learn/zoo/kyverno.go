// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"reflect"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var kyverno = animal{
	name:      "kyverno",
	source:    "https://github.com/kyverno/kyverno/issues/16256",
	happened:  "One policy made the controller update its webhook configurations several times a second: 65 GB of audit logs a week.",
	mechanism: "The desired selector has empty fields, which the API server does not store: reflect.DeepEqual always finds a difference.",
	mend:      "equality.Semantic.DeepEqual does not distinguish what is empty from what is absent.",
	promise:   simulation.Silence,
	program: func(mended bool) simulation.Program {
		return managed(kyvernoController{mended}.reconcile, &networkingv1.NetworkPolicy{})
	},
	config: simulation.Config{ByDesign: isAdopted},
}

// kyvernoController gives each App a NetworkPolicy, with a selector of the type that the webhooks of a configuration have.
type kyvernoController struct{ mended bool }

func (c kyvernoController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	desired := &networkingv1.NetworkPolicy{ObjectMeta: newMeta(app, app.Name)}
	desired.Spec.PodSelector = metav1.LabelSelector{
		MatchLabels: map[string]string{"config": app.Spec.Config}, MatchExpressions: []metav1.LabelSelectorRequirement{},
	}
	found := &networkingv1.NetworkPolicy{}
	switch err := k.Get(ctx, client.ObjectKeyFromObject(desired), found); {
	case apierrors.IsNotFound(err):
		return k.createNamed(ctx, desired, app.Name)
	case err != nil || !metav1.IsControlledBy(found, app):
		return err
	}
	isEqual := reflect.DeepEqual
	if c.mended {
		isEqual = equality.Semantic.DeepEqual
	}
	if isEqual(found.Spec.PodSelector, desired.Spec.PodSelector) {
		return nil
	}
	changed := found.DeepCopy()
	changed.Spec.PodSelector = desired.Spec.PodSelector
	return k.patch(ctx, changed, found)
}
