// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

var earlier = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))

func deployment(change func(*appsv1.DeploymentStatus)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "example"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx", "controller": "example-foo"}},
		},
		Status: appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
	}
	change(&deployment.Status)
	return deployment
}

func TestNew(t *testing.T) {
	nothing := func(*appsv1.DeploymentStatus) {}
	timedOut := func(status *appsv1.DeploymentStatus) {
		status.AvailableReplicas = 1
		status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}
	}
	taken := &Problem{Reason: "ErrResourceExists", Message: "the name is taken"}
	for name, test := range map[string]struct {
		deployment  *appsv1.Deployment
		problem     *Problem
		wantReady   metav1.ConditionStatus
		wantReason  string
		wantStalled bool
		// The Foo was Ready before: does that time stay?
		wantMoved     bool
		wantAvailable int32
		wantSelector  string
	}{
		"a Foo whose replicas are all available is Ready": {
			deployment: deployment(nothing),
			wantReady:  metav1.ConditionTrue, wantReason: "DeploymentAvailable",
			wantAvailable: 2, wantSelector: "app=nginx,controller=example-foo",
		},
		"a Foo whose Deployment rolls out is not": {
			deployment: deployment(func(status *appsv1.DeploymentStatus) { status.AvailableReplicas = 0 }),
			wantReady:  metav1.ConditionFalse, wantReason: "DeploymentProgressing", wantMoved: true,
			wantSelector: "app=nginx,controller=example-foo",
		},
		"a Foo whose Deployment does not get on is Stalled": {
			deployment: deployment(timedOut),
			wantReady:  metav1.ConditionFalse, wantReason: "DeploymentStalled", wantStalled: true, wantMoved: true,
			wantAvailable: 1, wantSelector: "app=nginx,controller=example-foo",
		},
		"a Foo with a problem and no Deployment is Stalled": {
			problem:   taken,
			wantReady: metav1.ConditionFalse, wantReason: "ErrResourceExists", wantStalled: true, wantMoved: true,
		},
		"a Foo with a problem tells what its Deployment still serves": {
			deployment: deployment(nothing), problem: taken,
			wantReady: metav1.ConditionFalse, wantReason: "ErrResourceExists", wantStalled: true, wantMoved: true,
			wantAvailable: 2, wantSelector: "app=nginx,controller=example-foo",
		},
	} {
		t.Run(name, func(t *testing.T) {
			foo := &samplev1alpha1.Foo{
				ObjectMeta: metav1.ObjectMeta{Generation: 3},
				Status: samplev1alpha1.FooStatus{Conditions: []metav1.Condition{
					{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: earlier, Reason: "DeploymentAvailable", ObservedGeneration: 2},
					{Type: "OfSomeoneElse", Status: metav1.ConditionTrue, LastTransitionTime: earlier, Reason: "Theirs"},
				}},
			}
			cached := foo.DeepCopy()
			status := New(foo, test.deployment, test.problem)
			if !reflect.DeepEqual(foo, cached) {
				t.Error("what belongs to the cache was changed")
			}

			ready := meta.FindStatusCondition(status.Conditions, "Ready")
			if ready.Status != test.wantReady || ready.Reason != test.wantReason || ready.ObservedGeneration != 3 {
				t.Errorf("Ready = %+v, want %s %s of generation 3", ready, test.wantReady, test.wantReason)
			}
			if moved := !ready.LastTransitionTime.Equal(&earlier); moved != test.wantMoved {
				t.Errorf("the time of the transition moved: %v, want %v", moved, test.wantMoved)
			}
			stalled := meta.FindStatusCondition(status.Conditions, "Stalled")
			if (stalled != nil) != test.wantStalled || stalled != nil && (stalled.Status != metav1.ConditionTrue ||
				stalled.Reason != test.wantReason || stalled.ObservedGeneration != 3) {
				t.Errorf("Stalled = %+v, want it: %v", stalled, test.wantStalled)
			}
			if meta.FindStatusCondition(status.Conditions, "OfSomeoneElse") == nil {
				t.Error("a condition of someone else is lost")
			}
			if status.ObservedGeneration != 3 || status.AvailableReplicas != test.wantAvailable || status.Selector != test.wantSelector {
				t.Errorf("status = %+v", status)
			}
			foo.Status = status
			if got := HasProblem(foo); got != (test.problem != nil) {
				t.Errorf("HasProblem() = %v", got)
			}
			if recovered := New(foo, deployment(nothing), nil); meta.FindStatusCondition(recovered.Conditions, "Stalled") != nil {
				t.Error("Stalled stays once all is well")
			}
		})
	}
}

func TestEqual(t *testing.T) {
	status := func(changes ...func(*samplev1alpha1.FooStatus)) samplev1alpha1.FooStatus {
		status := samplev1alpha1.FooStatus{
			AvailableReplicas: 1, Replicas: 2, Selector: "a=b", ObservedGeneration: 3,
			Conditions: []metav1.Condition{{Type: "Ready", Message: "message"}},
		}
		for _, change := range changes {
			change(&status)
		}
		return status
	}
	if !Equal(status(), status()) {
		t.Error("equal statuses differ")
	}
	for name, change := range map[string]func(*samplev1alpha1.FooStatus){
		"availableReplicas":  func(s *samplev1alpha1.FooStatus) { s.AvailableReplicas++ },
		"replicas":           func(s *samplev1alpha1.FooStatus) { s.Replicas++ },
		"selector":           func(s *samplev1alpha1.FooStatus) { s.Selector = "" },
		"observedGeneration": func(s *samplev1alpha1.FooStatus) { s.ObservedGeneration++ },
		"a condition":        func(s *samplev1alpha1.FooStatus) { s.Conditions[0].Message = "another" },
		"no condition":       func(s *samplev1alpha1.FooStatus) { s.Conditions = nil },
	} {
		if Equal(status(), status(change)) {
			t.Errorf("statuses that differ in %s are equal", name)
		}
	}
}

func TestTheSelectorIsThatOfTheAPI(t *testing.T) {
	for _, selector := range []*metav1.LabelSelector{
		nil,
		{},
		{MatchLabels: map[string]string{"controller": "a", "app": "nginx"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
	} {
		deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector}}
		want := metav1.FormatLabelSelector(selector)
		for _, known := range []string{"", "app=apache", want} {
			if got := selectorOf(deployment, known); got != want {
				t.Errorf("selectorOf(%v, %q) = %q, want %q", selector, known, got, want)
			}
		}
	}
}
