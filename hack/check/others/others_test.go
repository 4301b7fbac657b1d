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

// judgeAll judges also the promises that the controllers do not make by design, and those that they are known to break.
var judgeAll = flag.Bool("all", false, "judge all promises")

func TestMain(m *testing.M) {
	simulation.Flags()
	klog.SetLogger(klog.New(nil)) // What is logged without the logger of the context tells of faults that the walks have made.
	os.Exit(m.Run())
}

// exempt returns the promises that a controller does not make. A queue is all that paces these ones, and first come is first served.
func exempt(promises ...simulation.Promise) []simulation.Promise {
	if *judgeAll {
		return nil
	}
	return append(promises, simulation.NotLast, simulation.Pace)
}
