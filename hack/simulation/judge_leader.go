// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// requestTimeout is how long a request may be open at the API server: that of kube-apiserver.
const requestTimeout = time.Minute

// leaderJudge judges LeaderWrites and LeaseLast. A program that has never written a Lease elects no leader, and promises neither.
func leaderJudge(w *walk) judge {
	return judge{
		sent: func(i *instance, r *request) {
			if !w.elects || !r.IsWrite() || !isWork(r.Resource) {
				return
			}
			switch now := time.Now(); {
			case !i.leads && i.since.Before(now):
				w.violated(LeaderWrites, "%s knows since %s that it does not hold the Lease: %s", i.name, now.Sub(i.since), r)
			case i.leads && now.Sub(i.renewed) > i.valid:
				w.violated(LeaderWrites, "%s has renewed the Lease %s ago: %s", i.name, now.Sub(i.renewed), r)
			}
		},
		committed: func(i *instance, c *apiserver.Change) {
			if c.Request.Resource != leases || c.Type == watch.Deleted {
				return
			}
			if before := holderOf(c.Old); before != "" && before != i.identity && before != holderOf(c.New) && !isExpired(c.Old) {
				w.violated(LeaderWrites, "%s takes the Lease, which %s holds: %s", i.name, before, c.Request)
			}
			if holderOf(c.New) != "" || holderOf(c.Old) != i.identity {
				return
			}
			for _, r := range i.open {
				if isWork(r.Resource) && r.IsWrite() && time.Since(r.Sent) < requestTimeout {
					w.violated(LeaseLast, "%s releases the Lease while a request is open: %s", i.name, r)
				}
			}
		},
	}
}

// isExpired reports whether a Lease was not renewed in time. client-go compares times to the second, so that a candidate sees only the first of
// the renewals of a second.
func isExpired(lease *object) bool {
	renewed, err := time.Parse(metav1.RFC3339Micro, text(lease, "spec", "renewTime"))
	return err != nil || time.Since(renewed.Truncate(time.Second)) > time.Duration(number(lease, "spec", "leaseDurationSeconds"))*time.Second
}
