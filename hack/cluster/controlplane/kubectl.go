// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !without_kubectl

package main

import "k8s.io/kubectl/pkg/cmd"

func init() {
	components["kubectl"] = command(cmd.NewDefaultKubectlCommand)
}
