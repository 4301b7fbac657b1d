// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tryApply applies fields of an object.
func (c *cluster) tryApply(o *Object, manager, text string, force bool, subresources ...string) (*Object, error) {
	c.Helper()
	applied := object(c.T, text)
	applied.SetGroupVersionKind(o.GroupVersionKind())
	applied.SetName(o.GetName())
	return c.of(o).Patch(c.ctx, o.GetName(), types.ApplyPatchType, encode(applied.Object),
		metav1.PatchOptions{FieldManager: manager, Force: &force}, subresources...)
}

func (c *cluster) apply(o *Object, manager, text string) *Object {
	c.Helper()
	applied, err := c.tryApply(o, manager, text, false)
	if err != nil {
		c.Fatalf("%s applies %s: %v", manager, text, err)
	}
	return applied
}

// managers returns who has managed fields, each with the subresource, and the fields of those that are named.
func managers(o *Object, named string) (names []string, fields string) {
	for _, entry := range o.GetManagedFields() {
		name := strings.TrimSuffix(fmt.Sprint(entry.Manager, " ", entry.Operation, " ", entry.Subresource), " ")
		names = append(names, name)
		if name == named {
			fields = string(entry.FieldsV1.GetRawBytes())
		}
	}
	slices.Sort(names)
	return names, fields
}

func TestWithoutManagedFields(t *testing.T) {
	inCluster(t, Options{WithoutManagedFields: true}, Reliable{}, func(c *cluster) {
		for _, text := range []string{configMap, widget, deployment} {
			o := c.merge(c.create(text), "metadata: {labels: {x: z}}")
			if len(o.GetManagedFields()) > 0 {
				t.Errorf("the managed fields of %s are %v", o.GetKind(), o.GetManagedFields())
			}
			_, err := c.tryApply(o, "one", "metadata: {labels: {x: z}}", false)
			expectError(t, err, metav1.StatusReasonUnknown, "not simulated: server-side apply")
		}
	})
}

func TestApply(t *testing.T) {
	for _, text := range []string{configMap, widget, deployment} {
		inCluster(t, Options{Without: []Controller{DeploymentController}}, Reliable{}, func(c *cluster) {
			o := object(t, text)
			created := c.apply(o, "one", strings.Replace(string(encode(o.Object)), `"metadata":{`, `"metadata":{"annotations":{"x":"1"},`, 1))
			if names, _ := managers(created, ""); !slices.Equal(names, []string{"one Apply"}) {
				t.Errorf("the managers are %q", names)
			}
			advance(time.Hour) // The managed fields have times.
			created = c.get(o)
			again := c.apply(o, "one", strings.Replace(string(encode(o.Object)), `"metadata":{`, `"metadata":{"annotations":{"x":"1"},`, 1))
			if again.GetResourceVersion() != created.GetResourceVersion() {
				t.Errorf("applying the same makes resourceVersion %s of %s", again.GetResourceVersion(), created.GetResourceVersion())
			}
			_, err := c.tryApply(o, "two", `metadata: {annotations: {x: "2"}}`, false)
			expectError(t, err, metav1.StatusReasonConflict, `conflict with "one"`)
			_, err = c.tryApply(o, "two", `metadata: {annotations: {x: "2", z: "2"}}`, true)
			expectError(t, err, "", "")
			_, err = c.tryApply(o, "one", `metadata: {annotations: {x: "1"}}`, false)
			expectError(t, err, metav1.StatusReasonConflict, `conflict with "two"`)
			c.expect(c.apply(o, "two", `metadata: {annotations: {x: "2"}}`), map[string]string{"metadata.annotations": `{x: "2"}`})
			c.expect(c.apply(o, "two", `metadata: {labels: {x: z}}`), map[string]string{"metadata.annotations": "null", "metadata.labels.x": "z"})
		})
	}
}

func TestApplyErrors(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(widget)
		for _, test := range []struct {
			manager, text string
			reason        metav1.StatusReason
			part          string
		}{
			{"", "{}", metav1.StatusReasonInvalid, "fieldManager"},
			{"one", "spec: {nope: 1}", metav1.StatusReasonUnknown, "field not declared in schema"},
			{"one", `metadata: {resourceVersion: "1"}`, metav1.StatusReasonConflict, "modified"},
			{"one", "spec: {size: 11}", metav1.StatusReasonInvalid, "spec.size"},
		} {
			_, err := c.tryApply(o, test.manager, test.text, true)
			expectError(t, err, test.reason, test.part)
		}
		o.SetName("b")
		_, err := c.tryApply(o, "one", "metadata: {uid: other}", false)
		expectError(t, err, metav1.StatusReasonConflict, "")
		_, err = c.tryApply(o, "one", "status: {size: 1}", false, "status")
		expectError(t, err, metav1.StatusReasonNotFound, "")
	})
}

// TestManagers has the fields that each client has set: with a write of the status none of the spec, and none that admission or the API
// server has added.
func TestManagers(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		c.AddRule(Rule{
			Until: time.Now().Add(time.Hour), Matches: func(r *Request) bool { return r.Verb == "create" },
			Admit: func(_ *Request, o *Object) error {
				o.SetAnnotations(map[string]string{"admitted": "true"})
				return nil
			},
		})
		o := c.create(strings.Replace(widget, "spec:", "status: {size: 3}, spec:", 1))
		c.expect(o, map[string]string{"metadata.annotations.admitted": `"true"`})
		c.merge(o, "{status: {size: 1}, spec: {size: 3}}", "status")
		names, fields := managers(c.get(o), "program Update status")
		if !slices.Equal(names, []string{"program Update", "program Update status"}) || strings.Contains(fields, "spec") {
			t.Errorf("the managers are %q, with the fields %s of the status", names, fields)
		}
		if _, fields := managers(c.get(o), "program Update"); fields != `{"f:spec":{".":{},"f:color":{},"f:mode":{},"f:size":{}}}` {
			t.Errorf("the creator has the fields %s", fields)
		}
		if _, err := c.tryApply(o, "one", "{status: {selector: x}, spec: {name: b}}", false, "status"); err != nil {
			t.Fatal(err)
		}
		if _, fields := managers(c.get(o), "one Apply status"); fields != `{"f:status":{"f:selector":{}}}` {
			t.Errorf("who applies the status has the fields %s", fields)
		}
		if _, fields := managers(c.create(service), "program Update"); strings.Contains(fields, "clusterIP") {
			t.Errorf("the creator of a Service has the fields %s", fields)
		}
	})
}
