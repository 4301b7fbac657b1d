// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/sample-controller/pkg/ownership"
)

// object is any object.
type object = unstructured.Unstructured

// described is what a step shows of an object.
type described struct {
	object           string // namespace/name
	resourceVersion  string
	owner            string // namespace/name of the Foo that controls it, or that it is about
	raw              string
	initialEventsEnd bool
}

// describe returns what a step shows of an object.
func describe(o *object) described {
	d := described{
		object: objectName(o.GetNamespace(), o.GetName()), resourceVersion: o.GetResourceVersion(),
		initialEventsEnd: o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true",
	}
	at := func(path ...string) any { return nested(o, path...) }
	switch o.GetKind() {
	case "Foo":
		d.owner = d.object
		d.raw = summary("Foo", "generation", o.GetGeneration(), "spec", at("spec"), "status", at("status"))
	case "Deployment":
		if controller := ownership.ControllerRef(o); controller != nil {
			d.owner = objectName(o.GetNamespace(), controller.Name)
		}
		var images []any
		containers, _ := at("spec", "template", "spec", "containers").([]any)
		for _, container := range containers {
			images = append(images, container.(map[string]any)["image"])
		}
		d.raw = summary("Deployment", "generation", o.GetGeneration(), "controller", d.owner, "replicas", at("spec", "replicas"), "images", images,
			"availableReplicas", at("status", "availableReplicas"), "observedGeneration", at("status", "observedGeneration"))
	case "Event":
		namespace, _ := at("involvedObject", "namespace").(string)
		name, _ := at("involvedObject", "name").(string)
		d.owner = objectName(namespace, name)
		d.raw = summary("Event", "type", at("type"), "reason", at("reason"), "message", at("message"))
	}
	return d
}

// nested returns a field, or nil.
func nested(o *object, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

// summary returns a kind with names and values as compact JSON.
func summary(kind string, namesAndValues ...any) string {
	var text strings.Builder
	text.WriteString(kind)
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		value, err := json.Marshal(namesAndValues[i+1])
		if err != nil || len(value) == 0 || string(value) == "null" || string(value) == `""` || string(value) == "{}" {
			continue
		}
		text.WriteString(" " + namesAndValues[i].(string) + "=")
		text.Write(value)
	}
	return text.String()
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
