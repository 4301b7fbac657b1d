// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// begin runs the controller, or else a variant, in a cluster without objects, with further flags. The page, or
// package record, plays the scenario of the variant then.
func (l *Lab) begin(id, side string, flags []string) {
	l.stop()
	l.cluster.user.Clear()
	l.record(Step{Source: wire, Stop: "fault", Kind: "variant", Name: id, Result: side, What: "the " + side + " is started"})
	if side == "controller" {
		id = ""
	}
	l.run(id, flags)
}

// stop stops what runs as the controller, and ends all faults.
func (l *Lab) stop() {
	l.gate.set(false)
	l.stopInstances()
	l.change(func() {
		l.revoked, l.injections, l.delay = "", nil, 0
		clear(l.lasting)
	})
	l.record(Step{Source: wire, Stop: "fault", Kind: "faultsEnd", What: "all faults end"})
}

// run starts the controller or, if it is not empty, a variant.
func (l *Lab) run(variant string, flags []string) {
	l.change(func() { l.variant, l.flags = variant, flags })
	l.startInstances(1)
}

// recordEnd traces with which Foos and Deployments a scenario has ended.
func (l *Lab) recordEnd(id string) {
	end := Step{Source: wire, Stop: "api-server", Kind: "variantEnd", Name: id}
	for _, o := range l.cluster.objects(foos) {
		foo := &samplev1alpha1.Foo{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, foo) != nil {
			continue // A variant cannot write what is no Foo.
		}
		s := end
		s.Lane, s.Object, s.What = foos, describe(o).object, describeFoo(foo)
		l.record(s)
	}
	for _, o := range l.cluster.objects(deployments) {
		s := end
		s.Lane, s.Object, s.What = deployments, describe(o).object, describeDeployment(o)
		l.record(s)
	}
	end.Stop, end.What = "fault", "the scenario has ended"
	l.record(end)
}

func describeDeployment(o *object) string {
	replicas, available := nested(o, "spec", "replicas"), nested(o, "status", "availableReplicas")
	text := fmt.Sprintf("%v replicas, %v available", cmp.Or(replicas, any(int64(0))), cmp.Or(available, any(int64(0))))
	if o.GetDeletionTimestamp() != nil {
		text += ", being deleted"
	}
	return text
}

func describeFoo(foo *samplev1alpha1.Foo) string {
	text := "Deployment " + foo.Spec.DeploymentName
	if foo.Spec.Replicas != nil {
		text += fmt.Sprintf(", %d replicas", *foo.Spec.Replicas)
	}
	if foo.Status.ObservedGeneration <= 0 {
		return text + "; no status"
	}
	text += fmt.Sprintf("; status: %d available", foo.Status.AvailableReplicas)
	for _, name := range []string{samplev1alpha1.ConditionReady, samplev1alpha1.ConditionStalled} {
		if condition := meta.FindStatusCondition(foo.Status.Conditions, name); condition != nil {
			text += fmt.Sprintf(", %s %s (%s)", name, condition.Status, condition.Reason)
		}
	}
	if foo.Status.ObservedGeneration != foo.Generation {
		text += fmt.Sprintf(", of generation %d instead of %d", foo.Status.ObservedGeneration, foo.Generation)
	}
	return text
}
