// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !without_kube_controller_manager

package main

import "k8s.io/kubernetes/cmd/kube-controller-manager/app"

func init() {
	components["kube-controller-manager"] = command(app.NewControllerManagerCommand)
}
