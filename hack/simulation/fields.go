// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is any object, with numbers as int64 or float64.
type object = unstructured.Unstructured

// field is a field of an object that has no fields of its own, with what changes it there.
type field struct {
	name   string // its path, where items of lists have the name that identifies them
	value  any
	set    func(value any)
	remove func()
	key    string // the last part of its path, which may have dots, as the keys of annotations
}

// text is the value as a string, to compare it.
func (f field) text() string { return fmt.Sprint(f.value) }

// fieldsOf returns the fields of an object but for its status and, of its metadata, all but labels and annotations.
func fieldsOf(o *object) (list []field) {
	add := func(f field) { list = append(list, f) }
	for _, key := range slices.Sorted(maps.Keys(o.Object)) {
		switch key {
		case "apiVersion", "kind", "status":
		case "metadata":
			for _, inner := range []string{"annotations", "labels"} {
				m, _ := value(o, "metadata", inner).(map[string]any)
				visitMap("metadata."+inner, m, add)
			}
		default:
			visit(field{key, o.Object[key], func(v any) { o.Object[key] = v }, func() { delete(o.Object, key) }, key}, add)
		}
	}
	return list
}

// statusFieldsOf returns the fields of an object's status.
func statusFieldsOf(o *object) (list []field) {
	status, _ := o.Object["status"].(map[string]any)
	visitMap("status", status, func(f field) { list = append(list, f) })
	return list
}

// visit calls a function with a field or, if it has fields of its own, with those.
func visit(f field, add func(field)) {
	switch v := f.value.(type) {
	case nil:
	case map[string]any:
		visitMap(f.name, v, add)
	case []any:
		if !slices.ContainsFunc(v, func(item any) bool { return keyOf(item) == "" }) {
			visitList(f.name, v, add)
			return
		}
		add(f)
	default:
		add(f)
	}
}

func visitMap(name string, m map[string]any, add func(field)) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		visit(field{name + "." + key, m[key], func(v any) { m[key] = v }, func() { delete(m, key) }, key}, add)
	}
}

// visitList visits the items of a list, each of which has a name.
func visitList(name string, items []any, add func(field)) {
	for _, item := range items {
		m, key := item.(map[string]any), keyOf(item)
		for _, inner := range slices.Sorted(maps.Keys(m)) {
			if inner != key {
				set, remove := func(v any) { m[inner] = v }, func() { delete(m, inner) }
				visit(field{fmt.Sprintf("%s[%s=%v].%s", name, key, m[key], inner), m[inner], set, remove, inner}, add)
			}
		}
	}
}

// keyOf returns the field that identifies an item of a list, or nothing.
func keyOf(item any) string {
	m, _ := item.(map[string]any)
	for _, key := range []string{"name", "type", "key", "uid"} {
		if _, ok := m[key].(string); ok {
			return key
		}
	}
	return ""
}

// valuesOf returns the fields of an object by their names.
func valuesOf(o *object) map[string]string {
	values := map[string]string{}
	for _, f := range fieldsOf(o) {
		values[f.name] = f.text()
	}
	return values
}

// maxDescribed is how many fields of an object stories tell, and maxText how long a value may be.
const maxDescribed, maxText = 4, 60

// describe returns the kind and the name of an object, and its first fields.
func describe(o *object) string { return describeChange(&object{}, o) }

// describeChange returns the kind and the name of an object, and its first fields that were not so before.
func describeChange(before, o *object) string {
	var parts []string
	was, is := valuesOf(before), valuesOf(o)
	for _, f := range fieldsOf(o) {
		if v, ok := was[f.name]; isTold(f) && (!ok || v != f.text()) {
			parts = append(parts, f.key+" "+shortened(f.text()))
		}
	}
	for _, f := range fieldsOf(before) {
		if _, ok := is[f.name]; isTold(f) && !ok {
			parts = append(parts, "no "+f.key)
		}
	}
	parts = parts[:min(maxDescribed, len(parts))]
	if finalizers := strings.Join(o.GetFinalizers(), " "); finalizers != strings.Join(before.GetFinalizers(), " ") {
		parts = append(parts, strings.TrimSpace("finalizers "+finalizers))
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), strings.Join(parts, ", ")), ": ")
}

// shortened returns a text as stories tell it.
func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// isTold reports whether stories tell a field.
func isTold(f field) bool { return !strings.HasPrefix(f.name, "metadata.") && !isUnknown(f.name) }

// value, text and number read a field whose parents are objects. One that is not there is nil, empty, or 0.

func value(o *object, path ...string) any {
	if o == nil {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

func text(o *object, path ...string) string {
	v, _ := value(o, path...).(string)
	return v
}

func number(o *object, path ...string) int64 {
	v, _ := value(o, path...).(int64)
	return v
}

// generation reads a generation that a status reports. Some do so as text, as Rollouts of Argo.
func generation(v any) (g int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		g, err := strconv.ParseInt(v, 10, 64)
		return g, err == nil
	}
	return 0, false
}

// observedGeneration returns the generation that the status of an object reports, and whether it does.
func observedGeneration(o *object) (int64, bool) {
	return generation(value(o, "status", "observedGeneration"))
}

func setField(o *object, v any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, v, path...); err != nil {
		panic(err) // The path is that of a field.
	}
}
