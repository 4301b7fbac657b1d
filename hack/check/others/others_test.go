// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"flag"
	"os"
	"testing"

	"k8s.io/klog/v2"

	"k8s.io/sample-controller/hack/simulation"
)

// judgeAll judges also the promises that the controllers are known to break.
var judgeAll = flag.Bool("all", false, "judge also the promises that a controller does not make")

func TestMain(m *testing.M) {
	simulation.Flags()
	klog.SetLogger(klog.New(nil)) // What is logged without the logger of the context tells of faults that the walks have made.
	os.Exit(m.Run())
}

func exempt(promises ...simulation.Promise) []simulation.Promise {
	if *judgeAll {
		return nil
	}
	return promises
}
