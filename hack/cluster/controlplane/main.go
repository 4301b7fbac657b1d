// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is etcd, the Kubernetes control plane and kubectl linked into one binary. It runs the component that it
// is named after: each has a symbolic link to it. The build tag without_<component> excludes a component.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// components are the main functions by component, registered in one file for each.
var components = map[string]func(){}

func command(newCommand func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(newCommand())) }
}

func main() {
	run, ok := components[filepath.Base(os.Args[0])]
	if !ok {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "controlplane must be run through a symbolic link named after one of %q\n", names)
		os.Exit(2)
	}
	run()
}
