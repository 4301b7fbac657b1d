// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"encoding/json"
	"os"
	"testing"
)

func TestChecks(t *testing.T) {
	content, err := os.ReadFile("../page/exercises.json")
	if err != nil {
		t.Fatal(err)
	}
	var exercises []struct{ ID string }
	if err := json.Unmarshal(content, &exercises); err != nil {
		t.Fatal(err)
	}
	engine := newEngine(t, []map[string]any{})
	runModule(t, engine, "testdata/streams.js")
	if got := evaluate(t, engine, "Object.keys(checks).length"); got != int64(len(exercises)) {
		t.Errorf("there are %d exercises and %v checks", len(exercises), got)
	}
	for _, exercise := range exercises {
		setJSON(t, engine, "id", exercise.ID)
		for _, mistake := range evaluate(t, engine, "mistakes(id)").([]any) {
			t.Errorf("the check of %s: %v", exercise.ID, mistake)
		}
	}
}
