// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// Scenario is what shows the difference between the controller and a variant, as the catalogue of variants has it.
type Scenario struct {
	Flags []string       `json:"flags"` // further ones, of the controller
	Steps []ScenarioStep `json:"steps"`
}

// ScenarioStep is an act, a fault or a wait.
type ScenarioStep struct {
	Act    string          `json:"act"`
	Fault  string          `json:"fault"`
	Fields json.RawMessage `json:"fields"` // of the act or fault, if they are not the defaults
	Until  map[string]any  `json:"until"`  // fields of a step that is waited for. It may have happened since the previous act or fault.
	Wait   float64         `json:"wait"`   // in seconds, with Until at most
}

// variantState is what the page shows of the variant that was chosen.
type variantState struct {
	ID    string `json:"id"`
	Phase string `json:"phase"` // on which the scenario is played, or played or failed
	Error string `json:"error,omitempty"`
}

// The phases of a variant. It runs until somebody goes back to the controller.
const (
	onController = "controller"
	onVariant    = "variant"
	played       = "played"
	failed       = "failed"
)

// startTimeout is how long an instance may take to start its workers.
const startTimeout = 30 * time.Second

var errPlaying = errors.New("the scenario of a variant is being played")

// isPlaying reports whether the scenario of a variant is being played.
func (l *Lab) isPlaying() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.played != nil && l.played.Phase != played && l.played.Phase != failed
}

// startVariant plays the scenario of a variant, on the controller and on the variant. The variant runs until it is stopped.
func (l *Lab) startVariant(id string, scenario Scenario) error {
	if l.isPlaying() {
		return errPlaying
	}
	l.stopVariant()
	ctx, cancel := context.WithCancel(context.Background())
	l.change(func() { l.played, l.endVariant = &variantState{ID: id, Phase: onController}, cancel })
	go func() {
		l.acting.Lock()
		defer l.acting.Unlock()
		result := &variantState{ID: id, Phase: played}
		for _, phase := range []string{onController, onVariant} {
			if err := l.playOn(ctx, id, phase, scenario); err != nil {
				result.Phase, result.Error = failed, err.Error()
				break
			}
		}
		if ctx.Err() == nil {
			l.change(func() { l.played = result })
			return
		}
		l.backToController()
	}()
	return nil
}

// backToController replaces a variant by the controller, which finds the objects as the variant has left them.
func (l *Lab) backToController() {
	l.stop()
	l.run("", nil)
	l.change(func() { l.played = nil })
}

// stopVariant ends the variant and its scenario, if there is one. The controller runs again then.
func (l *Lab) stopVariant() {
	isPlaying := l.isPlaying()
	l.lock.Lock()
	isPlayed := l.played != nil
	l.endVariant()
	l.lock.Unlock()
	if isPlayed && !isPlaying {
		l.acting.Lock()
		defer l.acting.Unlock()
		l.backToController()
	}
}

// playOn plays the scenario of a variant on the controller or on the variant, in a cluster without objects.
func (l *Lab) playOn(ctx context.Context, id, phase string, scenario Scenario) error {
	l.change(func() { l.played = &variantState{ID: id, Phase: phase} })
	began := l.last()
	l.stop()
	l.cluster.Clear()
	l.record(Step{Source: wire, Stop: "fault", Kind: "variant", Name: id, Result: phase, What: "the " + phase + " is started"})
	variant := ""
	if phase == onVariant {
		variant = id
	}
	l.run(variant, scenario.Flags)
	l.await(ctx, began, map[string]any{"kind": "workersStarted"}, startTimeout)
	if err := l.play(ctx, scenario.Steps); err != nil {
		return err
	}
	l.recordEnd(id)
	return ctx.Err()
}

// stop stops what runs as the controller, and ends all faults.
func (l *Lab) stop() {
	l.gate.set(false)
	l.stopInstances()
	l.change(func() {
		l.revoked, l.injections, l.delay = "", nil, 0
		clear(l.lasting)
	})
}

// run starts the controller or, if it is not empty, a variant.
func (l *Lab) run(variant string, flags []string) {
	l.change(func() { l.variant, l.flags = variant, flags })
	l.startInstances(1)
}

func (l *Lab) play(ctx context.Context, steps []ScenarioStep) error {
	since := l.last()
	for _, step := range steps {
		wait := time.Duration(step.Wait * float64(time.Second))
		switch {
		case step.Act != "" || step.Fault != "":
			stop := "act"
			if step.Fault != "" {
				stop = "fault"
			}
			since = l.last()
			if _, err := l.act(stop, cmp.Or(step.Act, step.Fault), step.Fields); err != nil {
				return err
			}
		case step.Until != nil:
			l.await(ctx, since, step.Until, wait)
		default:
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// await waits for a step that is newer than since and has some values, at most for a duration.
func (l *Lab) await(ctx context.Context, since int64, values map[string]any, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	for {
		steps, more := l.after(since)
		for _, s := range steps {
			since = s.Seq
			if hasValues(s, values) {
				return
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// hasValues reports whether the fields of a step have the given values, by the names that both have in JSON.
func hasValues(s Step, values map[string]any) bool {
	fields := map[string]any{}
	content, err := json.Marshal(s)
	if err != nil || json.Unmarshal(content, &fields) != nil {
		return false
	}
	for name, value := range values {
		if !reflect.DeepEqual(fields[name], value) {
			return false
		}
	}
	return true
}

// recordEnd traces with which Foos and Deployments a scenario has ended.
func (l *Lab) recordEnd(id string) {
	end := Step{Source: wire, Stop: "api-server", Kind: "variantEnd", Name: id}
	for _, o := range l.cluster.Objects(foos) {
		foo := &samplev1alpha1.Foo{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, foo) != nil {
			continue // A variant cannot write what is no Foo.
		}
		s := end
		s.Lane, s.Object, s.What = foos, describe(o).object, describeFoo(foo)
		l.record(s)
	}
	for _, o := range l.cluster.Objects(deployments) {
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
