// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// TestUninstall deletes a CRD while a finalizer holds an object: that can be read and changed until it goes, and no other one created.
func TestUninstall(t *testing.T) {
	w := newWalk(newTestTester(t, Config{Program: newWidgetController(nil)}), script{})
	w.trial = &Trial{Run: func(*Walk) {
		for _, s := range steps(t, "create", "hold", "uninstall/65520") {
			w.take(s)
		}
		ctx := context.Background()
		client := dynamic.NewForConfigOrDie(w.current(0).Config()).Resource(widgets).Namespace("default")
		create := func() error {
			_, err := client.Create(ctx, newUnstructured("example.com/v1", "Widget", "another"), metav1.CreateOptions{})
			return err
		}
		if err := create(); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("while a finalizer holds an object, the creation of another one returns %v", err)
		}
		o, err := client.Get(ctx, "widget-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.SetFinalizers(nil)
		if _, err := client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		_, err = client.List(ctx, metav1.ListOptions{})
		for name, err := range map[string]error{"list": err, "creation": create()} {
			if !apierrors.IsNotFound(err) {
				t.Errorf("without objects, the %s returns %v", name, err)
			}
		}
	}}
	w.inBubble(t)
}
