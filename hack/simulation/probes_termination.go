// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

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
	isWrite := func(r *apiserver.Request) bool { return isWork(r.Resource) && r.IsWrite() }
	w.setHidden(true)
	w.delayRequests(openTime, isWrite)
	w.deleteTheirs(fmt.Sprintf("each write takes %s, and the instances are terminated", openTime))
	w.sleep(time.Second)
	for n := range w.Instances {
		w.current(n).stop(false)
	}
	w.sleep(time.Minute + openTime)
	w.delayRequests(0, isWrite)
	w.setHidden(false)
}
