// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "testing"

// TestForward restarts a controller on a stale API server: it gives a ConfigMap the color that its Widget had before.
func TestForward(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(nil), Strict: []Promise{Forward}})
	s := script{steps: steps(t, "create", "change/16", "change/32", "staleRestart/65540"), faults: map[string]fault{}, noLags: true}
	if w := all.walk(t, s, Forward); w.broken[Forward] == nil {
		t.Errorf("%q is not broken:\n%s", Forward, join(w.lines))
	}
}
