// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation/foos"
	"k8s.io/sample-controller/hack/simulation/walks"
	"k8s.io/sample-controller/pkg/options"
)

func init() { walks.Flags() }

// TestWalks walks with the program as with any controller: see package walks.
func TestWalks(t *testing.T) {
	walks.Test(t, walks.Config{
		Program: func(ctx context.Context, config *rest.Config) error {
			o, err := options.Parse([]string{"-leader-elect", "-leader-elect-resource-namespace=default", "-resync-period=4m"}, os.Stderr)
			if err != nil {
				return err
			}
			return run(ctx, config, o)
		},
		CRDs:     []string{"artifacts/examples/crd.yaml"},
		Examples: []string{"artifacts/examples/example-foo.yaml"},
		Strict:   []walks.Promise{walks.OwnWrites, walks.FreshWrites},
		Own:      foos.Promises,
		ByDesign: foos.DependsOnPath,
	})
}
