// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package samplecontroller names the API group of this project; its versions are the packages below it.
package samplecontroller

// GroupName is the API group of every kind in this project.
const GroupName = "samplecontroller.k8s.io"
