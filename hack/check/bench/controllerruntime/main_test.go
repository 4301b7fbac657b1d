// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/foos"
)

const resync = 4 * time.Minute

// broken are the promises that it breaks, since a library does not keep them for its users: docs/reference/controller-runtime.md says why.
var (
	broken = []simulation.Promise{
		simulation.Generations, simulation.OwnFields, simulation.SameEnd, simulation.LeaderWrites, simulation.BoundedWork, simulation.Truth,
		simulation.Pace, simulation.OwnPause, simulation.Restored,
	}
	judgeAll = flag.Bool("all", false, "judge also the promises that it is known to break")
)

func init() { simulation.Flags() }

// TestSimulation walks with the controller as with the one in the root of the repository.
func TestSimulation(t *testing.T) {
	config := newConfig()
	if !*judgeAll {
		config.Exempt = broken
	}
	simulation.Test(t, config)
}

// notLearned are the stages of the tutorial whose lesson it has not learned: docs/learn/tutorial/controller-runtime.md lists them.
var notLearned = []int{5, 6, 8, 9}

// TestLessons verifies which lessons of the tutorial it has learned.
func TestLessons(t *testing.T) {
	config := newConfig()
	config.Own = foos.Promises
	for n, lesson := range foos.Lessons {
		t.Run(lesson.Name, func(t *testing.T) {
			story, broken := config.Try(t, lesson)
			if isLearned := broken == ""; isLearned == slices.Contains(notLearned, n+1) {
				t.Errorf("the lesson of stage %d: learned is %v, and it should be the other way round\n%s", n+1, isLearned, story)
			}
		})
	}
}

func newConfig() simulation.Config {
	return simulation.Config{
		Program: runSimulated, Resync: resync,
		CRDs: []string{"../../../../artifacts/examples/crd.yaml"}, Examples: []string{"../../../../artifacts/examples/example-foo.yaml"},
	}
}

func runSimulated(ctx context.Context, restConfig *rest.Config) error {
	return run(ctx, restConfig, 2, ctrl.Options{
		Logger: klog.FromContext(ctx), Cache: cache.Options{SyncPeriod: new(resync)},
		LeaderElection: true, LeaderElectionID: "controllerruntime", LeaderElectionNamespace: "default",
		Controller: config.Controller{SkipNameValidation: new(true)}, // Each instance has a controller of this name.
	})
}
