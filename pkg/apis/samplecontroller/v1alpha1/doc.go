// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +groupName=samplecontroller.k8s.io
// +groupGoName=Samplecontroller
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.sample-controller.pkg.apis.samplecontroller.v1alpha1

// Package v1alpha1 is version v1alpha1 of the API group samplecontroller.k8s.io: the Go types of Foo, from
// which its CustomResourceDefinition and all client code are generated.
package v1alpha1
