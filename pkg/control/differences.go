// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Differences are the fields of an object that differ from its desired state. Found is nil if there is no object.
// They are computed when they are printed, so that a log line that is disabled costs nothing.
type Differences[T Object[T]] struct {
	Kind           string
	Found, Desired T
}

// Exist reports whether anything differs. Values that are equal to the API server, such as the quantities
// 1000m and 1, or an empty list and none, do not.
func (d Differences[T]) Exist() bool {
	// Most syncs find nothing, which reflect.DeepEqual sees in a fraction of the time.
	return !reflect.DeepEqual(d.Found, d.Desired) && !equality.Semantic.DeepEqual(d.Found, d.Desired)
}

// String returns each field with its desired value and the one that was found.
func (d Differences[T]) String() string {
	var none T
	if d.Found == none {
		return fmt.Sprintf("%s %q: desired, found nothing", d.Kind, d.Desired.GetName())
	}
	found, desired := fields(d.Found), fields(d.Desired)
	var differences []string
	for _, field := range slices.Sorted(maps.Keys(desired)) {
		if value := cmp.Or(found[field], "nothing"); value != desired[field] {
			differences = append(differences, fmt.Sprintf("%s: desired %s, found %s", field, desired[field], value))
		}
	}
	return strings.Join(differences, "; ")
}

func fields(object any) map[string]string {
	content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(object) // It has no unknown types.
	fields := map[string]string{}
	flatten("", content, fields)
	return fields
}

// flatten adds the values of fields by their paths, such as spec.template.spec.containers[nginx].image.
func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			flatten(strings.TrimPrefix(path+"."+key, "."), field, into)
		}
	case []any:
		for i, item := range value {
			fields, _ := item.(map[string]any)
			flatten(fmt.Sprintf("%s[%v]", path, cmp.Or(fields["name"], any(i))), item, into)
		}
	default:
		into[path] = fmt.Sprintf("%#v", value)
	}
}
