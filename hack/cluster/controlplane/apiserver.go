// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !without_kube_apiserver

package main

import "k8s.io/kubernetes/cmd/kube-apiserver/app"

func init() {
	components["kube-apiserver"] = command(app.NewAPIServerCommand)
}
