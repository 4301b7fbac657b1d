// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestJob walks with the controller of Jobs.
func TestJob(t *testing.T) { simulation.Test(t, jobConfig()) }

func jobConfig() simulation.Config {
	return simulation.Config{
		Program: Job, Resync: resync, Instances: 1, Examples: []string{"testdata/jobs.yaml"},
		Without: []apiserver.Controller{apiserver.JobController},
		Exempt: exempt(
			simulation.OwnObjects, // It adopts Pods that it selects, and releases those that it does not select any more.
			simulation.Silence,    // A Pod that has failed is replaced after a pause that grows to ten minutes.
			simulation.Deletion,   // A Job that is deleted waits for a Pod that it does not select any more: TestKnown.
		),
		ByDesign: func(o *apiserver.Object, _ []*apiserver.Object) bool {
			dropHistory(o)
			return o.GetKind() == "Pod" || o.GetDeletionTimestamp() != nil // It counts its Pods, and does not look at what they have become.
		},
	}
}

// dropHistory drops what the status of a Job tells of its past: how many Pods have failed, and that it was suspended once.
func dropHistory(job *apiserver.Object) {
	unstructured.RemoveNestedField(job.Object, "status", "failed")
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Suspended" })
	_ = unstructured.SetNestedSlice(job.Object, conditions, "status", "conditions")
}
