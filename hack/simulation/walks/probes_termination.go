// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package walks

import (
	"fmt"
	"time"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// openTimes are how long a write takes during which an instance is terminated. It may wait for the end of the shorter one.
var openTimes = []time.Duration{5 * time.Second, 50 * time.Second}

// probeTermination terminates the instances while a write is open. What the leader does with its Lease is judged as ever.
func probeTermination(w *walk) {
	openTime := openTimes[w.script.choice(len(openTimes), "open")]
	setDelay := func(delay time.Duration) {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.requestFault = func(_ string, r *apiserver.Request) (f fault) {
			if isWork(r.Resource) && r.IsWrite() {
				f.Delay = delay
			}
			return f
		}
	}
	w.setHidden(true)
	setDelay(openTime)
	w.deleteTheirs(fmt.Sprintf("each write takes %s, and the instances are terminated", openTime))
	w.sleep(time.Second)
	for n := range w.Instances {
		w.current(n).stop(false)
	}
	w.sleep(time.Minute + openTime)
	setDelay(0)
	w.setHidden(false)
}
