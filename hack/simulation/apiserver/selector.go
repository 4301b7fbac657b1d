// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// selector returns what a list, a watch or the deletion of a collection selects.
func (r *Request) selector(resource *Resource, options *internalversion.ListOptions) (selects func(*Object) bool, err error) {
	for _, required := range options.FieldSelector.Requirements() {
		switch name := required.Field; {
		case name == "metadata.name", name == "metadata.namespace", slices.Contains(resource.Fields, name):
		case len(resource.Fields) > 0 || resource.IsCustom:
			return nil, apierrors.NewBadRequest("field label not supported: " + name)
		default:
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, name))
		}
	}
	return func(o *Object) bool {
		return (r.Namespace == "" || o.GetNamespace() == r.Namespace) && options.LabelSelector.Matches(labels.Set(o.GetLabels())) &&
			options.FieldSelector.Matches(fieldsOf{o})
	}, nil
}

// fieldsOf are the fields of an object that a selector sees. It implements fields.Fields.
type fieldsOf struct{ *Object }

func (f fieldsOf) Has(name string) bool { return true }

func (f fieldsOf) Get(name string) string {
	path := strings.Split(name, ".")
	switch name {
	case "reportingComponent": // of an Event
		path = []string{"source", "component"}
	case "source":
		path = []string{"source", "component"}
	case "status.successful": // of a Job
		path = []string{"status", "succeeded"}
	}
	switch v := value(f.Object, path...).(type) {
	case nil:
		return fieldDefaults[name]
	default:
		return fmt.Sprint(v)
	}
}

// fieldDefaults are what a selector sees of fields that are not set, if it is not the empty string.
var fieldDefaults = map[string]string{
	"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0", "status.successful": "0",
}

// sorted returns the objects in a namespace, or in all if it is empty, in the order of their namespaces and names.
func sorted(objects map[types.NamespacedName]*Object, namespace string) []*Object {
	var keys []types.NamespacedName
	for key := range objects {
		if namespace == "" || key.Namespace == namespace {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	sorted := make([]*Object, len(keys))
	for i, key := range keys {
		sorted[i] = objects[key]
	}
	return sorted
}
