// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the definitions of pkg/generated/openapi as an OpenAPI v2 document, from which
// hack/update-codegen.sh generates the apply configurations.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"k8s.io/sample-controller/pkg/generated/openapi"
)

func main() {
	reference := func(model string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + common.EscapeJsonPointer(model))
	}
	definitions := spec.Definitions{}
	for model, definition := range openapi.GetOpenAPIDefinitions(reference) {
		// The document is of version 2: what is only in version 3, such as oneOf, is left out where there is a schema of both.
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			definition.Schema = v2
		}
		definitions[model] = definition.Schema
	}
	document := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "models", Version: "unversioned"}},
		Paths:       &spec.Paths{},
		Definitions: definitions,
	}}
	if err := json.NewEncoder(os.Stdout).Encode(&document); err != nil {
		log.Fatal(err)
	}
}
