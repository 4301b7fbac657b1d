// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// custom returns the resource of a CRD in the version that is stored, and what is not simulated.
func custom(crd *Object) (r *Resource, notes []string, err error) {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["storage"] == true {
			r, err = customVersion(crd, &Object{Object: version})
		} else if version["served"] == true {
			notes = append(notes, fmt.Sprintf("%s: version %v is not served", crd.GetName(), version["name"]))
		}
	}
	if r == nil && err == nil {
		err = errors.New("no version is stored")
	}
	if err != nil {
		return nil, nil, err
	}
	all, notEvaluated := countRules(r.Schema, false)
	r.hasRules = all > 0
	if notEvaluated > 0 {
		notes = append(notes, fmt.Sprintf("%s: CEL rules (x-kubernetes-validations) of %d fields are not evaluated", crd.GetName(), notEvaluated))
	}
	return r, notes, nil
}

func customVersion(crd, version *Object) (*Resource, error) {
	gv := schema.GroupVersion{Group: text(crd, "spec", "group"), Version: text(version, "name")}
	r := &Resource{
		GroupVersionResource: gv.WithResource(text(crd, "spec", "names", "plural")), Kind: gv.WithKind(text(crd, "spec", "names", "kind")),
		Namespaced: text(crd, "spec", "scope") == "Namespaced", HasStatus: value(version, "subresources", "status") != nil, IsCustom: true,
		hasGeneration: true, conditional: true,
	}
	if value(version, "subresources", "scale") != nil {
		path := func(name string) []string {
			return strings.FieldsFunc(text(version, "subresources", "scale", name), func(c rune) bool { return c == '.' })
		}
		r.scale = &scalePaths{path("specReplicasPath"), path("statusReplicasPath"), path("labelSelectorPath")}
	}
	fields, _, _ := unstructured.NestedSlice(version.Object, "selectableFields")
	for _, f := range fields {
		path, _ := f.(map[string]any)["jsonPath"].(string)
		r.Fields = append(r.Fields, strings.TrimPrefix(path, "."))
	}
	r.Schema, _, _ = unstructured.NestedMap(version.Object, "schema", "openAPIV3Schema")
	if r.Schema["properties"] == nil {
		return nil, errors.New("its schema has no properties")
	}
	return r, r.addSchema()
}

// addSchema adds what comes from the structural schema.
func (r *Resource) addSchema() (err error) {
	validated := &spec.Schema{}
	if err := json.Unmarshal(encode(r.Schema), validated); err != nil {
		return err
	}
	r.validator = validate.NewSchemaValidator(validated, nil, "", strfmt.Default)
	typed := runtime.DeepCopyJSON(r.Schema)
	properties := typed["properties"].(map[string]any)
	metadata, err := decode([]byte(metadataSchema))
	if err != nil {
		return err
	}
	properties["metadata"] = metadata.Object
	properties["apiVersion"], properties["kind"] = map[string]any{"type": "string"}, map[string]any{"type": "string"}
	typed["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": r.Kind.Group, "version": r.Kind.Version, "kind": r.Kind.Kind}}
	schema := &spec.Schema{}
	if err := json.Unmarshal(encode(typed), schema); err != nil {
		return err
	}
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{r.Kind.Kind: schema}, false)
	if err != nil {
		return err
	}
	r.converter = func() managedfields.TypeConverter { return converter }
	r.managers = sync.OnceValue(r.newManagers)
	return nil
}

// metadataSchema is the schema of metav1.ObjectMeta, as far as field managers need it.
const metadataSchema = `{"type": "object", "properties": {
	"name": {"type": "string"}, "namespace": {"type": "string"}, "generateName": {"type": "string"}, "uid": {"type": "string"},
	"resourceVersion": {"type": "string"}, "generation": {"type": "integer"}, "selfLink": {"type": "string"},
	"creationTimestamp": {"type": "string"}, "deletionTimestamp": {"type": "string"}, "deletionGracePeriodSeconds": {"type": "integer"},
	"labels": {"type": "object", "additionalProperties": {"type": "string"}},
	"annotations": {"type": "object", "additionalProperties": {"type": "string"}},
	"finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
	"managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {
		"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
	"ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"], "items": {
		"type": "object", "required": ["uid"], "x-kubernetes-map-type": "atomic", "properties": {
			"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "uid": {"type": "string"},
			"controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}}}}}`
