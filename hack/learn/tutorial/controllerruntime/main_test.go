// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/learn/tutorial"
	"k8s.io/sample-controller/hack/simulation"
)

const repository = "../../../../"

func TestStage(t *testing.T) { tutorial.Test(t, 9, run) }

// broken are the promises that it breaks. The page of the stage says why.
var broken = []simulation.Promise{simulation.SameEnd, simulation.Pace, simulation.Truth}

func init() { simulation.Flags() }

// TestSimulation walks with the controller as with the one in the root of the repository.
func TestSimulation(t *testing.T) {
	simulation.Test(t, simulation.Config{
		Program: run, Exempt: broken,
		Strict: []simulation.Promise{simulation.OwnWrites, simulation.FreshWrites, simulation.FreshOwners, simulation.Unseen},
		CRDs:   []string{repository + "artifacts/examples/crd.yaml"}, Examples: []string{repository + "artifacts/examples/example-foo.yaml"},
	})
}

// TestPage verifies that the page of the stage names the promises that are broken.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(repository + "docs/learn/tutorial/controller-runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, promise := range broken {
		if !strings.Contains(string(page), "\n- *"+string(promise)+"*: ") {
			t.Errorf("the page does not say that it breaks %q", promise)
		}
	}
}
