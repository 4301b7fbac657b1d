// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestPodsOfWorkloads has a program that creates a StatefulSet, and looks at its Pods: users delete one or the other, and only the StatefulSet is
// compared with that of a fresh cluster.
func TestPodsOfWorkloads(t *testing.T) {
	stateful := newUnstructured("apps/v1", "StatefulSet", "a")
	stateful.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"l": "a"}}, "serviceName": "a", "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"l": "a"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "c"}}},
		},
	}
	w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, config *rest.Config) error {
		client := dynamic.NewForConfigOrDie(config)
		if _, err := client.Resource(pods.WithVersion("v1")).Namespace("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		sets := client.Resource(appsv1.SchemeGroupVersion.WithResource("statefulsets")).Namespace("default")
		if _, err := sets.Create(ctx, stateful, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return nil
	}}), script{})
	w.trial = &Trial{Run: func(walk *Walk) {
		walk.Sleep(10 * time.Second)
		state := w.endState(nil)
		if _, isCompared := state["statefulsets default/a"]; !isCompared || len(state) != 2 { // There is a ConfigMap, too.
			t.Errorf("these are compared: %v", state)
		}
		cronJob := Refer(batchv1.Resource("cronjobs"), "default", "a")
		for ref, isRefused := range map[reference]bool{w.theirs()[0]: true, w.referenceTo(w.others[0]): false, cronJob: false} {
			if (w.refusePods(ref, time.Second) != "") != isRefused {
				t.Errorf("Pods of %s are refused: %t", ref, !isRefused)
			}
		}
		walk.Sleep(time.Second)
		for argument, want := range []string{"Pod a-0", "StatefulSet a"} {
			if got := deleteTheirs(w, step{argument: argument}, w.theirs()[0]); !strings.Contains(got, want) {
				t.Errorf("a user %s, want one that deletes %s", got, want)
			}
			walk.Sleep(10 * time.Second)
		}
		w.story.lock.Lock()
		story := join(w.lines)
		w.story.lock.Unlock()
		if strings.Count(story, "pods a-0: ") > 1 {
			t.Errorf("each step of a Pod is told:\n%s", story)
		}
		if left := w.server.List(pods, ""); len(left) > 0 {
			t.Errorf("there are Pods without a StatefulSet: %v", left)
		}
	}}
	w.inBubble(t)
}

// TestOwnedByOthers makes another object of a user the controller of what the program has created: the program need not create that again for it.
func TestOwnedByOthers(t *testing.T) {
	create := steps(t, "create", "create", "create")
	create[1].target, create[2].target = 1, 2
	w := newWalk(newTestTester(t, Config{Program: newWidgetController(nil)}), script{steps: create})
	w.trial = &Trial{Run: func(walk *Walk) {
		for _, s := range create {
			w.take(s)
		}
		walk.Sleep(10 * time.Second)
		before := w.owned()
		probeNewOwner(w) // of two of the three
		if after := w.owned(); len(before) != 3 || !slices.Equal(after, before[2:]) {
			t.Errorf("these have their owners: %v, and then %v", before, after)
		}
	}}
	w.inBubble(t)
}
