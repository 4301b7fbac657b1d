// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"hash/fnv"
	"testing"
)

// subsetShare is the number of cases of the fault matrix of which a subset has about one.
const subsetShare = 10

var subsetSeed = flag.Uint64("subset", 0, "run about one in ten cases of the fault matrix, chosen by this seed; 0 runs all")

// runCase runs a case of the fault matrix as a subtest, unless only a subset is run that does not include it.
func runCase(t *testing.T, name string, test func(t *testing.T)) {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d/%s/%s", *subsetSeed, t.Name(), name)
	if *subsetSeed == 0 || hash.Sum64()%subsetShare == 0 {
		t.Run(name, test)
	}
}
