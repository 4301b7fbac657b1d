// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "testing"

// TestSecondCreation has a controller see late that a Widget is gone: it creates again what was collected.
func TestSecondCreation(t *testing.T) {
	s := script{steps: steps(t, "create"), probes: probeOf("a deletion that is seen late, after a restart")}
	testBroken(t, FreshOwners, nil, s)
}
