// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var jobs = schema.GroupResource{Group: "batch", Resource: "jobs"}

// notBefore is a promise of the controller that deletes Jobs.
const notBefore simulation.Promise = "no Job is deleted before its TTL has expired"

// TestTTLAfterFinished walks with the controller that deletes Jobs some time after they have finished.
func TestTTLAfterFinished(t *testing.T) { simulation.Test(t, ttlConfig()) }

func ttlConfig() simulation.Config {
	return simulation.Config{
		Program: TTLAfterFinished, Resync: resync, Instances: 1, Examples: []string{"testdata/jobs.yaml"},
		Exempt: exempt(simulation.OwnObjects), // It deletes what users have created: that is what it is for.
		Own: []simulation.Own{
			{Name: notBefore, Write: func(w simulation.Write) error {
				if left := timeLeft(w.Old); left > 0 {
					return fmt.Errorf("it has %s left", left)
				}
				return nil
			}},
			{Name: "a Job is deleted when its TTL has expired", End: func(c simulation.Cluster) error {
				for _, job := range c.List(jobs) {
					if left := timeLeft(job); left < 0 && job.GetDeletionTimestamp() == nil {
						return fmt.Errorf("Job %s has expired %s ago", job.GetName(), -left)
					}
				}
				return nil
			}},
		},
	}
}

// timeLeft returns how long a Job is to be kept.
func timeLeft(o *apiserver.Object) time.Duration {
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, job); err != nil {
		panic(err)
	}
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobComplete && job.Spec.TTLSecondsAfterFinished != nil {
			return time.Until(condition.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second))
		}
	}
	return 24 * time.Hour
}
