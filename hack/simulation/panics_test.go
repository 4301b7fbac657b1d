// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"strings"
	"testing"
)

// TestPanics has an event handler of the program panic: that is told as any other broken promise.
func TestPanics(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(func(c *widgetController) {
		c.onDeletion = func(c *widgetController, obj any) { c.enqueue(obj.(*object)) } // It may be a tombstone.
	})})
	w := newWalk(all, script{steps: steps(t, "create"), probes: probeOf("a deletion that no watch sees")})
	w.inBubble(t)
	if broken := w.broken[Health]; broken == nil || !strings.Contains(broken.what, "panics_test.go:15: interface conversion") {
		t.Errorf("health is broken by %v", broken)
	}
}

// TestPanicsElsewhere has something else panic than a program.
func TestPanicsElsewhere(t *testing.T) {
	defer func() {
		if got := recover(); got != "cause" {
			t.Errorf("the panic goes on with %v", got)
		}
	}()
	tellPanic(context.Background(), "cause")
}
