// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestZeroReplicasAreWritten(t *testing.T) {
	got, err := json.Marshal(FooStatus{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(got, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"availableReplicas", "replicas"} {
		if fields[name] != 0.0 {
			t.Errorf("%s = %v in %s, want 0", name, fields[name], got)
		}
	}
}

// kstatus, and so Flux and Helm, takes an object for reconciled whose status says nothing. With an observedGeneration that
// is not metadata.generation, it is in progress: by default, because no controller has written a status.
func TestStatusDefaultIsInProgress(t *testing.T) {
	file, err := os.Open("../../../../artifacts/examples/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var crd map[string]any
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	for _, version := range versions {
		schema, _, _ := unstructured.NestedMap(version.(map[string]any), "schema", "openAPIV3Schema")
		status, _, _ := unstructured.NestedMap(schema, "properties", "status", "default")
		var foo FooStatus
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &foo); err != nil {
			t.Fatal(err)
		}
		if foo.ObservedGeneration >= 0 {
			t.Errorf("the default of the status is %v, want an observedGeneration that no metadata.generation has", status)
		}
	}
}
