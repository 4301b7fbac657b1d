// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"slices"
	"testing"

	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	"k8s.io/sample-controller/pkg/generated/openapi"
)

// The generator of the apply configurations derives the name of a definition from the package, and silently leaves out what has
// another one: the marker openapi-model-package of each version has to agree.
func TestOpenAPIDefinitions(t *testing.T) {
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) })
	for kind, goType := range samplescheme.Scheme.AllKnownTypes() {
		if kind.Group != samplev1alpha1.SchemeGroupVersion.Group {
			continue
		}
		name, err := samplescheme.Scheme.ToOpenAPIDefinitionName(kind)
		if err != nil {
			t.Fatal(err)
		}
		if want := util.ToRESTFriendlyName(goType.PkgPath() + "." + goType.Name()); name != want {
			t.Errorf("the definition of %s is %s, want %s", kind, name, want)
		}
		definition, ok := definitions[name]
		if !ok {
			t.Errorf("no definition of %s", kind)
		}
		if i := slices.IndexFunc(definition.Dependencies, func(name string) bool { _, ok := definitions[name]; return !ok }); i >= 0 {
			t.Errorf("the definition of %s refers to %s, which has none", kind, definition.Dependencies[i])
		}
	}
}
