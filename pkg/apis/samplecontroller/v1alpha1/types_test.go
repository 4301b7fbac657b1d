// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestZeroReplicasAreWritten(t *testing.T) {
	got, err := json.Marshal(FooStatus{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(got, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"availableReplicas", "replicas"} {
		if fields[name] != 0.0 {
			t.Errorf("%s = %v in %s, want 0", name, fields[name], got)
		}
	}
}
