// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"runtime/debug"
	"testing"
)

// Found is a walk that has broken a promise.
type Found struct {
	Seed  uint64
	Story string
}

// Find walks with seeds from 1 to limit until one breaks a promise, whatever others are broken, and returns nil if none does. If it
// shrinks, its story is the shortest one found.
func Find(t *testing.T, config Config, promise Promise, limit int, shrinks bool) (*Found, error) {
	t.Helper()
	percent := debug.SetGCPercent(400)
	defer debug.SetGCPercent(percent)
	all, err := newTester(config)
	if err != nil {
		return nil, err
	}
	for seed := uint64(1); seed <= uint64(limit); seed++ {
		s := all.newScript(seed)
		w := all.walk(t, s, promise)
		broken := w.broken[promise]
		if broken == nil {
			continue
		}
		story := broken.String() + "\n" + broken.tale()
		if shrinks {
			story = all.shrink(t, s, w, promise)
		}
		return &Found{seed, story}, nil
	}
	return nil, nil
}
