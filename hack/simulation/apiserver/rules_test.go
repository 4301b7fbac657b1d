// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"testing"
)

// How the API server evaluates rules is compared in hack/e2e: TestSimulationIsTrue.
func TestImmutableFields(t *testing.T) {
	for name, test := range map[string]struct {
		schema, found, updated string
		invalid                string
		all, notEvaluated      int
	}{
		"immutable, changed": {
			`{"properties": {"a": {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a is immutable"}]}}}`,
			`{"a": 1}`, `{"a": 2}`, `[a: Invalid value: 2: a is immutable]`, 1, 0,
		},
		"immutable, removed": {
			`{"properties": {"a": {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}`, `{"a": 1}`, `{}`, `[]`, 1, 0,
		},
		"another rule": {
			`{"properties": {"a": {"x-kubernetes-validations": [{"rule": "self == oldSelf"}, {"rule": "self > 0"}]}}}`,
			`{"a": 1}`, `{"a": -1}`, `[a: Invalid value: -1: failed rule: self == oldSelf]`, 1, 1,
		},
		"a rule with an option": {
			`{"properties": {"a": {"x-kubernetes-validations": [{"rule": "self == oldSelf", "optionalOldSelf": true}]}}}`,
			`{"a": 1}`, `{"a": 2}`, `[]`, 1, 1,
		},
		"in a list": {
			`{"properties": {"a": {"items": {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}`, `{"a": [1]}`, `{"a": [2]}`, `[]`, 1, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema, found, updated := object(t, test.schema), object(t, test.found), object(t, test.updated)
			if all, notEvaluated := countRules(schema.Object, false); all != test.all || notEvaluated != test.notEvaluated {
				t.Errorf("countRules() = %d, %d, want %d, %d", all, notEvaluated, test.all, test.notEvaluated)
			}
			if got := fmt.Sprint(changed(nil, found.Object, updated.Object, schema.Object)); got != test.invalid {
				t.Errorf("changed() = %s, want %s", got, test.invalid)
			}
		})
	}
}
