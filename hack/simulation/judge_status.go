// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// statusJudge judges Generations and TransitionTimes when a status is written.
func statusJudge(w *walk) judge {
	return judge{committed: func(i *instance, c *apiserver.Change) {
		if !w.isUsers(c.Request.Resource) || c.Type != watch.Modified {
			return
		}
		before, _ := observedGeneration(c.Old)
		after, _ := observedGeneration(c.New)
		switch {
		case after > c.New.GetGeneration():
			w.violated(Generations, "%s reports generation %d, and the newest one is %d: %s", i.name, after, c.New.GetGeneration(), c.Request)
		case after < before:
			w.violated(Generations, "%s reports generation %d after generation %d: %s", i.name, after, before, c.Request)
		}
		last := conditionsOf(c.Old)
		for name, condition := range conditionsOf(c.New) {
			w.judgeCondition(i, c, condition, last[name])
		}
	}}
}

// judgeCondition judges the times and the generation of a condition, and of what was there before, if anything. The lock is held.
func (w *walk) judgeCondition(i *instance, c *apiserver.Change, condition, last map[string]any) {
	if g, ok := generation(condition["observedGeneration"]); ok && g > c.New.GetGeneration() {
		w.violated(Generations, "%s reports generation %d in condition %s, and the newest one is %d: %s", i.name, g, condition["type"],
			c.New.GetGeneration(), c.Request)
	}
	at, ok := condition["lastTransitionTime"].(string)
	if !ok {
		return
	}
	transition, err := time.Parse(time.RFC3339, at)
	isChanged := last == nil || last["status"] != condition["status"]
	if err != nil || !isChanged && last["lastTransitionTime"] != at ||
		isChanged && (time.Since(transition) > convergenceTimeout || transition.After(time.Now())) {
		w.violated(TransitionTimes, "%s sets lastTransitionTime of condition %s, status %s before %s, to %s: %s", i.name, condition["type"],
			last["status"], condition["status"], at, c.Request)
	}
}

// conditionsOf returns the conditions of an object by their types.
func conditionsOf(o *object) map[string]map[string]any {
	conditions := map[string]map[string]any{}
	list, _ := value(o, "status", "conditions").([]any)
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			name, _ := condition["type"].(string)
			conditions[name] = condition
		}
	}
	return conditions
}
