// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var replicaSets = schema.GroupResource{Group: "apps", Resource: "replicasets"}

// TestReplicaSet walks with the controller of ReplicaSets.
func TestReplicaSet(t *testing.T) { simulation.Test(t, replicaSetConfig()) }

func replicaSetConfig() simulation.Config {
	return simulation.Config{
		Program: ReplicaSet, Resync: resync, Instances: 1, Examples: []string{"testdata/replicasets.yaml"},
		Without: []apiserver.Controller{apiserver.ReplicaSetController},
		Exempt: exempt(
			simulation.OwnObjects, // It adopts Pods that it selects, and releases those that it does not select any more.
			// After a conflict, it writes the status that it has computed from an older ReplicaSet, perhaps for another one of its name: TestKnown.
			simulation.Generations, simulation.TransitionTimes,
			simulation.BoundedWork,  // For a ReplicaSet that it does not know to be deleted, it creates Pods as fast as they are deleted: TestKnown.
			simulation.LivingOwners, // It creates all Pods that are missing, in one go, even if the ReplicaSet is deleted meanwhile.
		),
		// It counts its Pods, and does not look at what they have become.
		ByDesign: func(o *apiserver.Object, _ []*apiserver.Object) bool { return o.GetKind() == "Pod" },
		Own: []simulation.Own{{Name: "a ReplicaSet has its replicas", End: func(c simulation.Cluster) error {
			for _, set := range c.List(replicaSets) {
				want, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
				if has := len(c.ControlledBy(set)); set.GetDeletionTimestamp() == nil && int64(has) != want {
					return fmt.Errorf("ReplicaSet %s has %d Pods instead of %d", set.GetName(), has, want)
				}
			}
			return nil
		}}},
	}
}
