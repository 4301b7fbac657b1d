// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package zoo keeps public bugs of real controllers: each is rebuilt as a small controller, broken and mended, to show that package simulation
// notices it. What a controller does beside the bug is left out.
package zoo

import (
	"slices"
	"strings"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// animal is a bug, and a controller that has it.
type animal struct {
	name      string
	source    string // where the bug is reported
	happened  string // there
	mechanism string // of the bug
	mend      string // what the mended controller does
	promise   simulation.Promise
	// program returns the controller, without the bug if it is mended.
	program func(mended bool) simulation.Program
	// config is what the walks need to know of the controller, but for the program.
	config simulation.Config
}

// all are the animals of the zoo.
var all = []animal{
	scylla, opensearch, zookeeper, rabbitmqScale, infinispan, readiness, adoption, notebooks, kthena, kyverno, kuberay, rabbitmqDeletion,
}

// isAdopted reports whether a user has made another App the controller of a child: then it is not the child of the App of its name.
func isAdopted(o *apiserver.Object, owners []*apiserver.Object) bool {
	return o.GetKind() != "App" && len(owners) == 1 && !strings.HasPrefix(o.GetName(), owners[0].GetName())
}

// configOf returns the configuration of the walks of an animal.
func (a animal) configOf(mended bool) simulation.Config {
	c := a.config
	c.Program, c.Resync, c.CRDs = a.program(mended), resyncPeriod, []string{"testdata/crd.yaml"}
	if c.Examples == nil {
		c.Examples = []string{"testdata/apps.yaml"}
	}
	if c.Instances == 0 {
		c.Instances = 1 // It elects no leader.
	}
	if c.Objects == 0 {
		c.Objects = 3
	}
	c.Exempt = append(slices.Clone(c.Exempt), simulation.Pace, simulation.NotLast) // Their probes take long.
	return c
}
