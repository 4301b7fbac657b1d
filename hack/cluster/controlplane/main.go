// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is etcd, the Kubernetes control plane and kubectl linked into one binary. It runs the component with
// the name of the binary, which may be a symbolic link, or the one that its first argument names.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	etcd "go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodestage "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podstage "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kwok-stages":             newKwokStagesCommand,
}

// newKwokStagesCommand prints the stages without which kwok does not simulate Nodes and Pods.
func newKwokStagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kwok-stages",
		Short: "Print the stages of kwok that make Nodes and Pods ready immediately",
		RunE: func(cmd *cobra.Command, _ []string) error {
			stages := []string{nodestage.DefaultNodeInit,
				podstage.DefaultPodReady, podstage.DefaultPodComplete, podstage.DefaultPodDelete}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(stages, "\n---\n"))
			return err
		},
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && name != "etcd" && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	if name == "etcd" {
		etcd.Main(os.Args)
		return
	}
	newCommand, ok := components[name]
	if !ok {
		names := append(slices.Collect(maps.Keys(components)), "etcd")
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: controlplane {%s} [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
