// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +groupName=samplecontroller.k8s.io
// +groupGoName=Samplecontroller
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../../generated/applyconfiguration

// Package v1alpha1 is version v1alpha1 of the API group samplecontroller.k8s.io: the Go types of Foo, from
// which its CustomResourceDefinition and all client code are generated.
package v1alpha1
