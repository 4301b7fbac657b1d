// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// immutableRule is the only rule of CRDs in CEL that is evaluated, and only for fields that are not in a list or a map.
const immutableRule = "self == oldSelf"

// rulesOf returns the rules of a structural schema itself. Those of its fields are in their schemas.
func rulesOf(schema map[string]any) (rules []map[string]any) {
	list, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range list {
		if fields, ok := rule.(map[string]any); ok {
			rules = append(rules, fields)
		}
	}
	return rules
}

// isEvaluated reports whether a rule makes a field immutable, with nothing but a message.
func isEvaluated(rule map[string]any) bool {
	return rule["rule"] == immutableRule && (len(rule) == 1 || len(rule) == 2 && rule["message"] != nil)
}

// IsImmutable reports whether a rule of a structural schema makes a field immutable.
func IsImmutable(schema map[string]any) bool {
	return slices.ContainsFunc(rulesOf(schema), isEvaluated)
}

// countRules returns how many schemas have rules, and how many of them have rules that are not evaluated.
func countRules(schema map[string]any, inList bool) (all, notEvaluated int) {
	if rules := rulesOf(schema); len(rules) > 0 {
		all++
		if inList || slices.ContainsFunc(rules, func(rule map[string]any) bool { return !isEvaluated(rule) }) {
			notEvaluated++
		}
	}
	inner := func(value any, inList bool) {
		if schema, ok := value.(map[string]any); ok {
			a, n := countRules(schema, inList)
			all, notEvaluated = all+a, notEvaluated+n
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, property := range properties {
		inner(property, inList)
	}
	inner(schema["items"], true)
	inner(schema["additionalProperties"], true)
	return all, notEvaluated
}

// changed returns an error for each field that was there, is there, and differs, although a rule makes it immutable.
func changed(at *field.Path, found, value any, schema map[string]any) (invalid field.ErrorList) {
	for _, rule := range rulesOf(schema) {
		if isEvaluated(rule) && !equality.Semantic.DeepEqual(found, value) {
			message, _ := rule["message"].(string)
			if message == "" {
				message = "failed rule: " + immutableRule
			}
			shown := value
			if schema["type"] == "object" || schema["type"] == "array" {
				shown = field.OmitValueType{}
			}
			invalid = append(invalid, field.Invalid(at, shown, strings.TrimSpace(message)))
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	before, _ := found.(map[string]any)
	after, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		if before[name] != nil && after[name] != nil {
			invalid = append(invalid, changed(at.Child(name), before[name], after[name], property)...)
		}
	}
	return invalid
}
