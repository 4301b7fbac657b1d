// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"hash/fnv"
	"testing"
)

// sampleSize is the number of cases of the fault matrix of which a sample has one.
const sampleSize = 10

var sampleSeed = flag.Uint64("sample", 0, "run one in ten cases of the fault matrix, chosen by this seed; 0 runs all")

// runCase runs a case of the fault matrix as a subtest, unless only a sample is run that does not include it.
func runCase(t *testing.T, name string, test func(t *testing.T)) {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d/%s/%s", *sampleSeed, t.Name(), name)
	if *sampleSeed == 0 || hash.Sum64()%sampleSize == 0 {
		t.Run(name, test)
	}
}
