// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Object is any object, with numbers as int64 or float64.
type Object = unstructured.Unstructured

// ReadYAML returns the objects of YAML documents.
func ReadYAML(documents []byte) (objects []*Object, err error) {
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		var o Object
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if o.Object != nil {
			objects = append(objects, &o)
		}
	}
}

func decode(raw []byte) (*Object, error) {
	o := &Object{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		return nil, err
	}
	if o.Object == nil {
		return nil, fmt.Errorf("%.40q is no object", raw)
	}
	return o, nil
}

// encode panics: what the API server holds can be encoded.
func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

// value returns a field, or nil if the object does not have it.
func value(o *Object, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

func text(o *Object, path ...string) string {
	text, _ := value(o, path...).(string)
	return text
}

func number(o *Object, path ...string) int64 {
	number, _ := value(o, path...).(int64)
	return number
}

// set panics if a parent of the field is no object.
func set(o *Object, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}

func compareResources(a, b schema.GroupResource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
}
