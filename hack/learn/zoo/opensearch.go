// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/sample-controller/hack/simulation"
)

var opensearch = animal{
	name:      "opensearch",
	source:    "https://github.com/opensearch-project/opensearch-k8s-operator/issues/1471",
	happened:  "The quorum guard let a second cluster manager restart while the first one was down.",
	mechanism: "After a deletion, the guard counts in a cache that does not have it yet.",
	mend:      "The guard asks the API server.",
	promise:   oneAtATime.Name,
	program: func(mended bool) simulation.Program {
		return managed(opensearchController{mended}.reconcile, &corev1.ConfigMap{})
	},
	config: simulation.Config{Own: []simulation.Own{oneAtATime}, ByDesign: isAdopted},
}

// opensearchMembers is how many children an App has.
const opensearchMembers = 3

// opensearchController gives each App some ConfigMaps. It replaces them, one at a time, when the configuration changes.
type opensearchController struct{ mended bool }

func (c opensearchController) reconcile(ctx context.Context, k kube, app *App) error {
	if app.DeletionTimestamp != nil {
		return nil
	}
	for _, name := range memberNames(app.Name) {
		err := k.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, &corev1.ConfigMap{})
		if apierrors.IsNotFound(err) {
			err = k.createNamed(ctx, newConfigMap(app, name), name)
		}
		if err != nil {
			return err
		}
	}
	members, err := membersOf(ctx, k, app)
	if err != nil {
		return err
	}
	reader := client.Reader(k)
	if c.mended {
		reader = k.live
	}
	for _, member := range members {
		if member.Data["config"] == app.Spec.Config {
			continue
		}
		if up, err := membersOf(ctx, reader, app); err != nil || len(up) < opensearchMembers {
			return err
		}
		if err := k.Delete(ctx, &member); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return nil
}

// membersOf returns the ConfigMaps that an App controls and has named.
func membersOf(ctx context.Context, reader client.Reader, app *App) ([]corev1.ConfigMap, error) {
	its, err := configMapsOf(ctx, reader, app)
	return slices.DeleteFunc(its, func(c corev1.ConfigMap) bool { return !slices.Contains(memberNames(app.Name), c.Name) }), err
}

func memberNames(app string) (names []string) {
	for n := range opensearchMembers {
		names = append(names, fmt.Sprintf("%s-%d", app, n))
	}
	return names
}

// oneAtATime is what the guard is for.
var oneAtATime = simulation.Own{
	Name: "one member goes at a time",
	Write: func(w simulation.Write) error {
		if w.Request.Verb != "delete" || w.Request.Resource != corev1.Resource("configmaps") {
			return nil
		}
		owner := metav1.GetControllerOf(w.New)
		if owner == nil {
			return nil
		}
		for _, name := range memberNames(owner.Name) {
			known, isCertain := w.Known(w.Request.Resource, w.New.GetNamespace(), name)
			if known == nil && isCertain && name != w.New.GetName() {
				return fmt.Errorf("%s is not there, either", name)
			}
		}
		return nil
	},
}
