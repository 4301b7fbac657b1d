// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

// TestPanics has an event handler of the program panic: that is told as any other broken promise.
func TestPanics(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(func(c *widgetController) {
		c.onDeletion = func(c *widgetController, obj any) { c.enqueue(obj.(*object)) } // It may be a tombstone.
	})})
	w := newWalk(all, script{steps: steps(t, "create"), probes: probeOf("a deletion that no watch sees")})
	w.inBubble(t)
	if broken := w.broken[Health]; broken == nil || !strings.Contains(broken.what, "panics_test.go:") {
		t.Errorf("health is broken by %v", broken)
	}
}

// TestPanicsInFreshCluster has the program panic in the third process: after a restart, that of a fresh cluster.
func TestPanicsInFreshCluster(t *testing.T) {
	var started atomic.Int64
	w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, _ *rest.Config) error {
		if started.Add(1) == 3 {
			defer utilruntime.HandleCrashWithContext(ctx)
			panic("cause")
		}
		<-ctx.Done()
		return nil
	}}), script{})
	w.inBubble(t)
	if broken := w.broken[SameEnd]; broken == nil || !strings.HasPrefix(broken.what, "in a fresh cluster: health") || w.broken[Health] != nil {
		t.Errorf("path independence is broken by %v, and health by %v", broken, w.broken[Health])
	}
}

// TestPanicsElsewhere has something else panic than a program, or one whose health is not judged.
func TestPanicsElsewhere(t *testing.T) {
	unjudged := newWalk(newTestTester(t, Config{}), script{})
	unjudged.judged = []Promise{Soon}
	for _, w := range []*walk{nil, unjudged} {
		func() {
			inBubbles.Store(bubbleOfCaller(), w)
			defer inBubbles.Delete(bubbleOfCaller())
			defer func() {
				if got := recover(); got != "cause" {
					t.Errorf("the panic goes on with %v", got)
				}
			}()
			tellPanic(t.Context(), "cause")
		}()
	}
}
