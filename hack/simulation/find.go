// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"runtime/debug"
	"testing"
)

// Found is a walk that has broken a promise.
type Found struct {
	Walks int // how many there were until then, with it
	Story string
}

// Find tries each probe and then walks, with seeds from 1, until a promise is broken, whatever others are, at most limit times. It returns nil
// if it is not. If it shrinks, the story is the shortest one found.
func Find(t *testing.T, config Config, promise Promise, limit int, shrinks bool) (*Found, error) {
	t.Helper()
	percent := debug.SetGCPercent(400)
	defer debug.SetGCPercent(percent)
	all, err := newTester(config)
	if err != nil {
		return nil, err
	}
	probes := allProbes()
	for n := range limit {
		var s script
		if n < len(probes) {
			s = all.newProbe(probes[n])
		} else {
			s = all.newScript(uint64(n - len(probes) + 1))
		}
		w := all.walk(t, s, promise)
		broken := w.broken[promise]
		if broken == nil {
			continue
		}
		story := broken.String() + "\n" + broken.tale()
		if shrinks {
			story, _ = all.shrink(t, s, w, promise)
		}
		return &Found{n + 1, story}, nil
	}
	return nil, nil
}
