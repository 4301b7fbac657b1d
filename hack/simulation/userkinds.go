// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// userKind is a kind whose objects users create, change and delete.
type userKind struct {
	*apiserver.Resource
	examples  []*object
	leaves    []leaf
	mutable   []leaf    // the leaves that users change: no rule makes them immutable, and users know another value
	unchanged []string  // the fields that users would change if they knew another value
	unused    int       // how many are in parts that no example has
	there     []*object // what is there from the beginning
}

// leaf is a field that users change, with its schema.
type leaf struct {
	path     []string
	schema   map[string]any
	required bool
}

// kindsOf returns the kinds of the users' objects: those of custom resources or, if there are none, of all examples. others are the examples
// that are there from the beginning, as fixtures are.
func kindsOf(registry *apiserver.Registry, examples, fixtures []*object) (kinds []*userKind, others []*object, err error) {
	isCustom := func(o *object) bool {
		r := registry.ForKind(o.GroupVersionKind().GroupKind())
		return r != nil && r.IsCustom
	}
	anyCustom := slices.ContainsFunc(examples, isCustom)
	for _, o := range examples {
		r := registry.ForKind(o.GroupVersionKind().GroupKind())
		switch i := slices.IndexFunc(kinds, func(k *userKind) bool { return k.Resource == r }); {
		case r == nil:
			return nil, nil, fmt.Errorf("%s %s is an example of a kind that no CRD defines: add its CRD", o.GroupVersionKind(), o.GetName())
		case anyCustom && !r.IsCustom:
			others = append(others, o)
		case i >= 0:
			kinds[i].examples = append(kinds[i].examples, o)
		default:
			kinds = append(kinds, &userKind{Resource: r, examples: []*object{o}})
		}
	}
	if len(kinds) == 0 {
		return nil, nil, errors.New("there is no example of what users create: add one")
	}
	for _, k := range kinds {
		k.there = slices.Concat(others, fixtures)
		k.leaves = k.findLeaves()
		for _, l := range k.leaves {
			switch {
			case apiserver.IsImmutable(l.schema):
			case !k.uses(l.path):
				k.unused++
			case k.knowsAnother(l):
				k.mutable = append(k.mutable, l)
			default:
				k.unchanged = append(k.unchanged, strings.Join(l.path, "."))
			}
		}
	}
	return kinds, slices.Concat(others, fixtures), nil
}

// findLeaves returns the fields that users change: those of the schema or, of a built-in kind, those of the example.
func (k *userKind) findLeaves() (leaves []leaf) {
	if k.IsCustom {
		return leavesOf(k.Schema, nil)
	}
	for _, f := range fieldsOf(k.examples[0]) {
		path := strings.Split(f.name, ".")
		if path[0] == "spec" && !strings.ContainsAny(f.name, "[") {
			leaves = append(leaves, leaf{path: path, schema: schemaOf(f.value), required: true})
		}
	}
	return leaves
}

// schemaOf returns a schema for the values of a field of which there is no other.
func schemaOf(v any) map[string]any {
	switch v.(type) {
	case int64:
		return map[string]any{"type": "integer"}
	case bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "string"}
}

// leavesOf returns the fields of a structural schema that users may change, sorted by their paths.
func leavesOf(schema map[string]any, path []string) (leaves []leaf) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if len(path) == 0 && slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			continue
		}
		property, inner := properties[name].(map[string]any), append(slices.Clone(path), name)
		if property["type"] == "object" && property["additionalProperties"] == nil {
			leaves = append(leaves, leavesOf(property, inner)...)
			continue
		}
		leaves = append(leaves, leaf{inner, property, slices.Contains(required, any(name))})
	}
	return leaves
}

// poolSize is how many names there are for a field that has a name: fewer than users try, so that they collide.
const poolSize = 8

// example returns the example that the nth object is like.
func (k *userKind) example(n int) *object { return k.examples[n%len(k.examples)] }

// isName reports whether a field has a name that users choose. Other texts, such as an image or a schedule, are only known from examples. One such
// as activeService is a name if an example has that of a Service in it.
func (k *userKind) isName(l leaf) bool {
	if l.schema["type"] != "string" || l.schema["enum"] != nil || l.schema["format"] != nil {
		return false
	}
	key := strings.ToLower(l.path[len(l.path)-1])
	current := text(k.examples[0], l.path...)
	isThere := func(o *object) bool { return refersTo(key, o) && o.GetName() == current }
	return strings.HasSuffix(key, "name") && len(validation.IsDNS1123Subdomain(current)) == 0 || slices.ContainsFunc(k.there, isThere)
}

// refersTo reports whether what a field is about, in lower case, ends with the kind of an object.
func refersTo(of string, o *object) bool { return strings.HasSuffix(of, strings.ToLower(o.GetKind())) }

// nameIn returns a name for a field. That of a reference, such as widgetRef.name, with or without a kind beside it, is one that users give to the
// objects of a kind, or that of one that is there from the beginning.
func (k *userKind) nameIn(l leaf, n int) string {
	last := len(l.path) - 1
	of := strings.TrimSuffix(strings.ToLower(l.path[last]), "name")
	if of == "" && last > 0 {
		beside := append(slices.Clone(l.path[:last]), "kind")
		of = strings.ToLower(cmp.Or(text(k.examples[0], beside...), strings.TrimSuffix(l.path[last-1], "Ref")))
	}
	var names []string
	for _, o := range k.there {
		if refersTo(of, o) {
			names = append(names, o.GetName())
		}
	}
	if i := n % (len(names) + 1); i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s-%d", of, n%poolSize)
}

// change changes a field of an object within its schema or, if it is optional, adds or drops it.
func (k *userKind) change(o *object, argument int) string {
	if len(k.mutable) == 0 {
		return ""
	}
	l := k.mutable[argument%len(k.mutable)]
	argument /= len(k.mutable)
	if !l.required && argument%4 == 0 && value(o, l.path...) != nil {
		unstructured.RemoveNestedField(o.Object, l.path...)
		return "changes"
	}
	if v := k.valueOf(l, argument/4); v != nil {
		_ = unstructured.SetNestedField(o.Object, v, l.path...) // If a parent is no object, nothing changes.
	}
	return "changes"
}

// valueOf returns a value of a field, or nil if none is known.
func (k *userKind) valueOf(l leaf, argument int) any {
	if !k.uses(l.path) {
		return nil
	}
	if enum, _ := l.schema["enum"].([]any); len(enum) > 0 {
		return enum[argument%len(enum)]
	}
	if l.schema["x-kubernetes-int-or-string"] == true {
		return k.quantityOf(l, argument)
	}
	switch l.schema["type"] {
	case "object":
		return k.mapOf(l, argument)
	case "boolean":
		return argument%2 == 0
	case "integer", "number":
		low := integer(l.schema["minimum"], 0)
		high := min(integer(l.schema["maximum"], low+5), low+5)
		return low + int64(argument)%(high-low+1)
	case "string":
		if k.isName(l) {
			return k.nameIn(l, argument)
		}
		return value(k.example(argument), l.path...)
	case "array":
		items, _ := value(k.example(argument), l.path...).([]any)
		if len(items) == 0 {
			return nil
		}
		return runtime.DeepCopyJSONValue(items[:argument%len(items)+1])
	}
	return nil
}

// uses reports whether an example has the part of the spec to which a field belongs. What fits into another part, such as a Pod template, is not
// known: its schema allows much that the API server refuses.
func (k *userKind) uses(path []string) bool {
	return len(path) < 3 || slices.ContainsFunc(k.examples, func(example *object) bool { return value(example, path[:len(path)-1]...) != nil })
}

// knowsAnother reports whether users know enough values of a field to change it. An optional field with one value is dropped and added.
func (k *userKind) knowsAnother(l leaf) bool {
	values := map[string]bool{}
	for argument := range 32 {
		if v := k.valueOf(l, argument); v != nil {
			values[fmt.Sprint(v)] = true
		}
	}
	return len(values) > 1 || len(values) == 1 && !l.required
}

// summarize lists fields. Many of one part, such as those of a Pod template, are only counted.
func summarize(fields []string) string {
	const depth, few = 3, 3
	partOf := func(name string) string {
		path := strings.Split(name, ".")
		return strings.Join(path[:min(depth, len(path))], ".")
	}
	count := map[string]int{}
	for _, name := range fields {
		count[partOf(name)]++
	}
	var list []string
	for _, name := range fields {
		text, part := name, partOf(name)
		if count[part] > few {
			text = fmt.Sprintf("%s (%d fields)", part, count[part])
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, ", ")
}

// quantityOf returns a Quantity or an IntOrString: a multiple of what the example or the schema has, or of 1. A percentage stays as it is.
func (k *userKind) quantityOf(l leaf, argument int) any {
	known := cmp.Or(value(k.example(argument), l.path...), l.schema["default"], any(int64(1)))
	q, err := resource.ParseQuantity(fmt.Sprint(known))
	if err != nil {
		return known
	}
	q.Mul(1 << (argument % 4))
	if _, isInteger := known.(int64); isInteger {
		return q.Value()
	}
	return q.String()
}

// mapOf returns the map that the example has, with one more text or number in it, or nil if it has none and its values are neither. A text is
// one that the examples have in such a map, if they have more than one.
func (k *userKind) mapOf(l leaf, argument int) any {
	known, _ := value(k.example(argument), l.path...).(map[string]any)
	all := map[string]any{}
	maps.Copy(all, runtime.DeepCopyJSON(known))
	of, _ := l.schema["additionalProperties"].(map[string]any)
	key := fmt.Sprintf("KEY_%d", argument%3) // It fits a ConfigMap, a label and an environment variable.
	switch argument /= 3; of["type"] {
	case "string":
		texts := k.textsIn(l)
		if len(texts) < 2 {
			texts = []string{"value-0", "value-1", "value-2", "value-3"}
		}
		all[key] = texts[argument%len(texts)]
	case "integer", "number":
		all[key] = k.valueOf(leaf{schema: of}, argument)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// textsIn returns the texts that the examples have in a map.
func (k *userKind) textsIn(l leaf) (texts []string) {
	for _, example := range k.examples {
		known, _ := value(example, l.path...).(map[string]any)
		for _, v := range known {
			if text, ok := v.(string); ok {
				texts = insert(texts, text, strings.Compare)
			}
		}
	}
	return texts
}

func integer(v any, otherwise int64) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return otherwise
}

// newObject returns an object that is like an example, with another name, names of its own, and some other values.
func (k *userKind) newObject(name, namespace string, n, argument int) *object {
	o := k.example(n).DeepCopy()
	o.SetNamespace(namespace)
	o.SetName(name)
	for i, l := range k.leaves {
		switch {
		case k.isName(l) && value(o, l.path...) != nil:
			setField(o, k.nameIn(l, n), l.path...)
		case argument>>(i%8)&3 == 1:
			if v := k.valueOf(l, argument/4+i); v != nil {
				_ = unstructured.SetNestedField(o.Object, v, l.path...)
			}
		case argument>>(i%8)&7 == 2 && !l.required:
			unstructured.RemoveNestedField(o.Object, l.path...)
		}
	}
	return o
}
