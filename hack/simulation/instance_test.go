// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSyncsFirst stops a process while one of its caches has not synced.
func TestSyncsFirst(t *testing.T) {
	for _, syncsFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			i := &instance{walk: newWalk(newTestTester(t, Config{SyncsFirst: syncsFirst}), script{}), knowledge: newKnowledge()}
			i.ctx, i.cancel = context.WithCancel(t.Context())
			early, late := schema.GroupResource{Resource: "a"}, schema.GroupResource{Resource: "b"}
			i.opens(early)
			i.opens(late)
			i.catchesUp(early)
			i.stop(false)
			time.Sleep(time.Minute) // By the fake clock of the bubble.
			i.walk.lock.Lock()
			if goesOn := i.ctx.Err() == nil; goesOn != syncsFirst || i.stopped == syncsFirst {
				t.Errorf("SyncsFirst %t: before its caches have synced, it goes on: %t", syncsFirst, goesOn)
			}
			i.catchesUp(late)
			i.walk.lock.Unlock()
			time.Sleep(time.Second)
			i.walk.lock.Lock()
			defer i.walk.lock.Unlock()
			if i.ctx.Err() == nil || !i.stopped {
				t.Errorf("SyncsFirst %t: it goes on", syncsFirst)
			}
		})
	}
}
