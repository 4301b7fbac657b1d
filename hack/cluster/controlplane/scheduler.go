// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !without_kube_scheduler

package main

import (
	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func init() {
	components["kube-scheduler"] = command(func() *cobra.Command { return app.NewSchedulerCommand() })
}
