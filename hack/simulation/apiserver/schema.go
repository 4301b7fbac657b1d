// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
)

// applyDefaults sets the defaults of a structural schema. A null in a field that has a default, and is not nullable, is dropped before.
func applyDefaults(value any, schema map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			current, isSet := value[name]
			if d, hasDefault := property["default"]; hasDefault && (!isSet || current == nil && property["nullable"] != true) {
				value[name] = runtime.DeepCopyJSONValue(d)
			}
			applyDefaults(value[name], property)
		}
		if additional, ok := schema["additionalProperties"].(map[string]any); ok {
			for name, v := range value {
				if properties[name] == nil {
					applyDefaults(v, additional)
				}
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for _, v := range value {
				applyDefaults(v, items)
			}
		}
	}
}

// prune drops the fields that a structural schema does not have, and returns their paths.
func prune(value any, schema map[string]any, path string) (pruned []string) {
	switch value := value.(type) {
	case map[string]any:
		pruned = pruneObject(value, schema, path)
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, v := range value {
			pruned = append(pruned, prune(v, items, path+"[]")...)
		}
	}
	return pruned
}

func pruneObject(value, schema map[string]any, path string) (pruned []string) {
	properties, _ := schema["properties"].(map[string]any)
	additional, hasAdditional := schema["additionalProperties"]
	isEmbedded := schema["x-kubernetes-embedded-resource"] == true
	for name, v := range maps.Clone(value) {
		inner := path + "." + name
		property, known := properties[name].(map[string]any)
		switch isMeta := name == "metadata" || name == "apiVersion" || name == "kind"; {
		case isMeta && (path == "" || isEmbedded):
		case known && isDropped(v, property):
			delete(value, name)
		case known:
			pruned = append(pruned, prune(v, property, inner)...)
		case hasAdditional:
			items, _ := additional.(map[string]any)
			switch {
			case items != nil && isDropped(v, items):
				delete(value, name)
			case items != nil:
				pruned = append(pruned, prune(v, items, inner)...)
			}
		case schema["x-kubernetes-preserve-unknown-fields"] == true:
		default:
			delete(value, name)
			pruned = append(pruned, inner[1:])
		}
	}
	return pruned
}

// isDropped reports whether a value is a null that is neither allowed nor replaced with a default: it is dropped without a word.
func isDropped(v any, schema map[string]any) bool {
	_, hasDefault := schema["default"]
	return v == nil && schema["nullable"] != true && !hasDefault
}
