// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"

	"k8s.io/sample-controller/hack/variants"
)

// rbacFile has the permissions of the controller.
const rbacFile = "artifacts/install/base/rbac.yaml"

// The phases of a variant. It runs until somebody goes back to the controller.
const (
	onController = "controller" // the scenario is played on the controller
	onVariant    = "variant"
	played       = "played"
)

const (
	startTimeout   = 15 * time.Second
	cleanUpTimeout = 30 * time.Second
	// pollPeriod is the interval at which the API server is asked whether all objects are gone.
	pollPeriod = 50 * time.Millisecond
)

// variantState is what the page shows of the variant that was chosen.
type variantState struct {
	ID    string `json:"id"`
	Phase string `json:"phase"` // building, controller, variant, played, failed
	Error string `json:"error,omitempty"`
}

func (s *variantState) isPlaying() bool {
	return s != nil && s.Phase != played && s.Phase != failed
}

// program is what runs as the controller.
type program struct {
	path  string
	flags []string
}

// controller is the controller as it is.
func (l *lab) controller() program {
	return program{path: filepath.Join(l.binDir, "sample-controller")}
}

// startVariant makes playVariants build a variant, and play its scenario.
func (l *lab) startVariant(id string) error {
	v, ok := l.variants[id]
	if !ok {
		return fs.ErrNotExist
	}
	l.lock.Lock()
	switch {
	case l.phase != live:
		l.lock.Unlock()
		return fmt.Errorf("%w: the cluster is not running yet", errInvalid)
	case len(v.Scenario.Steps) == 0:
		l.lock.Unlock()
		return fmt.Errorf("%w: the variant has no scenario for the lab", errInvalid)
	case l.variant.isPlaying():
		l.lock.Unlock()
		return fmt.Errorf("%w: the scenario of another variant is being played", errInvalid)
	}
	l.variant = &variantState{ID: id, Phase: building}
	endVariant := l.endVariant
	l.lock.Unlock()
	l.changed()
	endVariant()
	l.starts <- v // It has room, because nothing is being played.
	return nil
}

// stopVariant ends the variant and its scenario, if there is one. The controller runs again then.
func (l *lab) stopVariant() {
	l.lock.Lock()
	endVariant := l.endVariant
	l.lock.Unlock()
	endVariant()
}

// playVariants plays variants as they are started, one after the other, until ctx is done.
func (l *lab) playVariants(ctx context.Context) {
	for {
		select {
		case v := <-l.starts:
			l.runVariant(ctx, v)
		case <-ctx.Done():
			return
		}
	}
}

// runVariant plays a variant, lets it run until it is stopped, and replaces it by the controller.
func (l *lab) runVariant(ctx context.Context, v variants.Variant) {
	untilStopped, end := context.WithCancel(ctx)
	defer end()
	l.change(func() { l.endVariant = end })
	result := &variantState{ID: v.ID, Phase: played}
	if err := l.playVariant(untilStopped, v); err != nil {
		result.Phase, result.Error = failed, err.Error()
	}
	if untilStopped.Err() == nil {
		l.change(func() { l.variant = result })
	}
	<-untilStopped.Done()
	if ctx.Err() != nil {
		return
	}
	l.acting.Lock()
	defer l.acting.Unlock()
	err := l.replace(ctx, l.controller(), l.rules, 1)
	l.change(func() {
		switch {
		case err != nil:
			l.variant = &variantState{ID: v.ID, Phase: failed, Error: err.Error()}
		case l.variant.ID == v.ID && len(l.starts) == 0: // Otherwise another one is about to be played.
			l.variant = nil
		}
	})
}

// playVariant builds a variant, and plays its scenario on the controller and on the variant.
func (l *lab) playVariant(ctx context.Context, v variants.Variant) error {
	l.acting.Lock()
	defer l.acting.Unlock()
	defer l.merger.attend()()
	dir := filepath.Join(l.cluster.Dir(), "variants", v.ID)
	path, err := v.Build(ctx, l.root, dir)
	if err != nil {
		return err
	}
	rules, err := readRules(filepath.Join(dir, rbacFile))
	if errors.Is(err, fs.ErrNotExist) {
		rules, err = l.rules, nil
	}
	if err != nil {
		return err
	}
	if err := l.playOn(ctx, v, onController, l.controller(), l.rules); err != nil {
		return err
	}
	return l.playOn(ctx, v, onVariant, program{path: path}, rules)
}

// playOn replaces the controller by a program, and plays the scenario of a variant, in a namespace without Foos and Deployments.
func (l *lab) playOn(ctx context.Context, v variants.Variant, phase string, p program, rules []rbacv1.PolicyRule) error {
	l.change(func() { l.variant = &variantState{ID: v.ID, Phase: phase} })
	l.stopInstances()
	if err := l.cleanUp(ctx); err != nil {
		return err
	}
	began := l.stream.last()
	p.flags = v.Scenario.Flags
	l.record(Step{Source: wire, Stop: "fault", Kind: "variant", Name: v.ID, Result: phase, What: "the " + phase + " is started: " + v.Title})
	if err := l.replace(ctx, p, rules, max(1, v.Scenario.Instances)); err != nil {
		return err
	}
	l.await(ctx, began, map[string]any{"kind": "workersStarted"}, startTimeout)
	if err := l.playScenario(ctx, v.Scenario); err != nil {
		return err
	}
	if err := l.recordEnd(ctx, v.ID); err != nil {
		return err
	}
	l.await(ctx, began, map[string]any{"kind": "variantEnd", "stop": "fault"}, startTimeout)
	return ctx.Err()
}

// replace replaces what runs as the controller, and ends all faults.
func (l *lab) replace(ctx context.Context, p program, rules []rbacv1.PolicyRule, instances int) error {
	l.stopInstances()
	l.injector.reset()
	l.change(func() {
		l.program = p
		clear(l.lasting)
	})
	return errors.Join(l.setRules(ctx, rules), l.startInstances(instances))
}

// cleanUp deletes all Foos and Deployments, and returns when they are gone, with their Pods.
func (l *lab) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	foosClient, deploymentsClient := l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace), l.kubeClient.AppsV1().Deployments(namespace)
	if err := foosClient.DeleteCollection(ctx, inBackground(), metav1.ListOptions{}); err != nil {
		return err
	}
	foreground := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
	if err := deploymentsClient.DeleteCollection(ctx, foreground, metav1.ListOptions{}); err != nil {
		return err
	}
	for {
		foos, err := foosClient.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		deployments, err := deploymentsClient.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(foos.Items)+len(deployments.Items) == 0 {
			return nil
		}
		sleep(ctx, pollPeriod)
	}
}

func (l *lab) playScenario(ctx context.Context, scenario variants.Scenario) error {
	since := l.stream.last()
	for _, step := range scenario.Steps {
		wait := time.Duration(step.Wait * float64(time.Second))
		switch {
		case step.Act != "" || step.Fault != "":
			stop, actions := "act", acts
			if step.Fault != "" {
				stop, actions = "fault", faultActions
			}
			a, ok := find(actions, cmp.Or(step.Act, step.Fault))
			if !ok {
				return fmt.Errorf("the scenario has an unknown %s %q", stop, cmp.Or(step.Act, step.Fault))
			}
			fields, err := json.Marshal(step.Fields)
			if err != nil {
				return err
			}
			v, err := a.parse(fields)
			if err != nil {
				return err
			}
			since = l.stream.last()
			if _, err := l.perform(ctx, stop, a, v); err != nil {
				return err
			}
		case step.Until != nil:
			l.await(ctx, since, step.Until, wait)
		default:
			sleep(ctx, wait)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// await waits for a step that is newer than since and has some values, at most for a duration.
func (l *lab) await(ctx context.Context, since int64, values map[string]any, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	for {
		steps, more := l.stream.after(since)
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
func (l *lab) recordEnd(ctx context.Context, id string) error {
	foosFound, err := l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	deploymentsFound, err := l.kubeClient.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	end := Step{Source: wire, Stop: "api-server", Kind: "variantEnd", Name: id}
	for _, foo := range foosFound.Items {
		s := end
		s.Lane, s.Object, s.What = foos, namespace+"/"+foo.Name, describeFoo(foo)
		l.record(s)
	}
	for _, deployment := range deploymentsFound.Items {
		s := end
		s.Lane, s.Object = deployments, namespace+"/"+deployment.Name
		s.What = fmt.Sprintf("%d replicas, %d available", *deployment.Spec.Replicas, deployment.Status.AvailableReplicas)
		if deployment.DeletionTimestamp != nil {
			s.What += ", being deleted"
		}
		l.record(s)
	}
	end.Stop, end.What = "fault", "the scenario has ended"
	l.record(end)
	return nil
}

func describeFoo(foo samplev1alpha1.Foo) string {
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
