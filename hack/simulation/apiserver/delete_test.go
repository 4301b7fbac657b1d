// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owned is a dependent of an object.
func owned(owner *Object, name, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default, ownerReferences: [
		{apiVersion: %s, kind: %s, name: %s, uid: %s%s}]}}`, name, owner.GetAPIVersion(), owner.GetKind(), owner.GetName(), owner.GetUID(), more)
}

// TestOwners deletes an owner of three dependents: with blockOwnerDeletion, without, and with another owner as well.
func TestOwners(t *testing.T) {
	for _, owner := range []string{widget, deployment, lease} {
		for _, test := range []struct {
			policy      metav1.DeletionPropagation
			deleted     bool // The dependents are.
			isMarked    bool // The owner waits for the garbage collector.
			isCollected bool // The garbage collector runs.
		}{
			{metav1.DeletePropagationBackground, true, false, true},
			{metav1.DeletePropagationForeground, true, true, true},
			{metav1.DeletePropagationOrphan, false, true, true},
			{metav1.DeletePropagationBackground, false, false, false},
			{metav1.DeletePropagationForeground, false, true, false},
		} {
			options := Options{}
			if !test.isCollected {
				options.Without = []Controller{GarbageCollector}
			}
			inCluster(t, options, Reliable{}, func(c *cluster) {
				o, other := c.create(owner), c.create(strings.Replace(widget, "name: a", "name: other", 1))
				blocking, plain := c.create(owned(o, "b", ", blockOwnerDeletion: true")), c.create(owned(o, "c", ""))
				more := fmt.Sprintf("}, {apiVersion: example.com/v1, kind: Widget, name: other, uid: %s", other.GetUID())
				shared := c.create(owned(o, "d", more))
				if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: &test.policy}); err != nil {
					t.Fatal(err)
				}
				if isMarked := c.get(o) != nil; isMarked != test.isMarked {
					t.Errorf("%s of %s: that it is there is %t", test.policy, o.GetKind(), isMarked)
				}
				advance(time.Minute)
				if isGone := c.get(o) == nil; isGone != (test.isCollected || !test.isMarked) {
					t.Errorf("%s of %s: that it is gone is %t", test.policy, o.GetKind(), isGone)
				}
				if c.get(blocking) == nil != test.deleted || c.get(plain) == nil != test.deleted {
					t.Errorf("%s of %s: the dependents are %v and %v", test.policy, o.GetKind(), c.get(blocking), c.get(plain))
				}
				if !test.isCollected {
					return
				}
				if left := c.get(shared).GetOwnerReferences(); len(left) != 1 || left[0].Name != "other" {
					t.Errorf("%s of %s: the shared dependent has the owners %v", test.policy, o.GetKind(), left)
				}
				if test.policy == metav1.DeletePropagationOrphan && len(c.get(plain).GetOwnerReferences()) > 0 {
					t.Errorf("the orphan has the owners %v", c.get(plain).GetOwnerReferences())
				}
			})
		}
	}
}

// TestWrongOwner has owner references to what is no owner: another object of the same name, another name, another kind, an unknown kind, one in
// a namespace for an object that has none.
func TestWrongOwner(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(widget)
		right := c.create(owned(o, "right", ""))
		uid := c.create(strings.Replace(owned(o, "uid", ""), string(o.GetUID()), "other", 1))
		name := c.create(strings.Replace(owned(o, "name", ""), "Widget, name: a", "Widget, name: b", 1))
		kind := c.create(strings.Replace(owned(o, "kind", ""), "Widget", "Plain", 1))
		unknown := c.create(strings.Replace(owned(o, "unknown", ""), "Widget", "Unknown", 1))
		global := strings.NewReplacer("v1, kind: ConfigMap", "example.com/v1, kind: Plain", "namespace: default, ", "")
		cluster := c.create(global.Replace(owned(o, "cluster", "")))
		advance(time.Minute)
		for o, isGone := range map[*Object]bool{right: false, uid: true, name: true, kind: true, unknown: false, cluster: false} {
			if got := c.get(o) == nil; got != isGone {
				t.Errorf("that %s is gone is %t", o.GetName(), got)
			}
		}
	})
}

// TestBlockedOwner has an owner that is deleted in the foreground: it waits for what blocks it, and for what blocks that.
func TestBlockedOwner(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		held := func(text string) string {
			return strings.Replace(text, "metadata: {", "metadata: {finalizers: [example.com/a], ", 1)
		}
		o := c.create(widget)
		child := c.create(owned(o, "child", ", blockOwnerDeletion: true"))
		grandchild := c.create(held(owned(child, "grandchild", ", blockOwnerDeletion: true")))
		other := c.create(held(owned(o, "other", "")))
		if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute)
		for _, waiting := range []*Object{o, child, grandchild, other} {
			if found := c.get(waiting); found == nil || found.GetDeletionTimestamp() == nil {
				t.Errorf("%s is %v", waiting.GetName(), found)
			}
		}
		for o, want := range map[*Object]string{o: "[foregroundDeletion]", child: "[foregroundDeletion]", other: "[example.com/a]"} {
			if got := fmt.Sprint(c.get(o).GetFinalizers()); got != want { // What has no dependents waits for none.
				t.Errorf("%s has the finalizers %s, want %s", o.GetName(), got, want)
			}
		}
		c.merge(grandchild, "metadata: {finalizers: null}")
		advance(time.Minute)
		if c.get(o) != nil || c.get(child) != nil || c.get(other) == nil {
			t.Errorf("they are %v, %v and %v", c.get(o), c.get(child), c.get(other))
		}
	})
}

func TestFinalizers(t *testing.T) {
	for _, text := range []string{configMap, widget, deployment} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := c.create(strings.Replace(text, "name: a", "name: a, finalizers: [example.com/a, example.com/b]", 1))
			for range 2 {
				if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			deleted := c.get(o)
			if deleted.GetDeletionTimestamp() == nil || o.GetGeneration() > 0 && deleted.GetGeneration() != o.GetGeneration()+1 {
				t.Errorf("it is %v", deleted)
			}
			_, err := c.patch(o, "application/merge-patch+json", "metadata: {finalizers: [example.com/c]}")
			expectError(t, err, metav1.StatusReasonInvalid, "finalizers")
			c.merge(o, "metadata: {deletionTimestamp: null, finalizers: [example.com/b]}")
			if deleted = c.get(o); deleted.GetDeletionTimestamp() == nil {
				t.Error("the deletion is undone")
			}
			c.merge(o, "metadata: {finalizers: null}")
			if c.get(o) != nil {
				t.Error("it is still there")
			}
		})
	}
}

func TestPreconditions(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(widget)
		other, version := metav1.NewUIDPreconditions("other"), o.GetResourceVersion()
		for part, preconditions := range map[string]*metav1.Preconditions{"UID": other, "ResourceVersion": {ResourceVersion: new("1")}} {
			err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: preconditions})
			expectError(t, err, metav1.StatusReasonConflict, "the "+part+" in the precondition")
		}
		err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(o.GetUID()), ResourceVersion: &version}})
		expectError(t, err, "", "")
		expectError(t, c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{}), metav1.StatusReasonNotFound, "")
		policy := metav1.DeletionPropagation("Other")
		expectError(t, c.of(o).Delete(c.ctx, c.create(widget).GetName(), metav1.DeleteOptions{PropagationPolicy: &policy}), metav1.StatusReasonInvalid, "")
	})
}

// TestDefaultPolicy has Jobs, whose dependents are orphans unless it is said otherwise.
func TestDefaultPolicy(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(job)
		dependent := c.create(owned(o, "b", ""))
		if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute)
		if c.get(o) != nil || c.get(dependent) == nil {
			t.Errorf("the Job is %v, and its dependent %v", c.get(o), c.get(dependent))
		}
	})
}

func TestDeleteCollection(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		a, b := c.create(configMap), c.create(strings.NewReplacer("name: a", "name: b", "{l: a}", "{l: b}").Replace(configMap))
		if err := c.of(a).DeleteCollection(c.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "l=a"}); err != nil {
			t.Fatal(err)
		}
		if c.get(a) != nil || c.get(b) == nil {
			t.Errorf("they are %v and %v", c.get(a), c.get(b))
		}
	})
}

// TestDeleted has what a deletion responds with, and how many changes it makes: a Pod is given no time any more before it is gone.
func TestDeleted(t *testing.T) {
	for text, want := range map[string]struct {
		kind    string
		changes int64
	}{
		configMap: {"Status", 1}, widget: {"Status", 1}, service: {"Service", 1},
		strings.Replace(pod, "containers", "schedulingGates: [{name: x}], containers", 1): {"Pod", 2},
	} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := c.create(text)
			advance(time.Second)
			before := c.ResourceVersion()
			deleted, err := c.Client("tester").Do(&Request{
				Verb: "delete", Resource: c.ForKind(o.GroupVersionKind().GroupKind()).GroupResource(), Namespace: "default", Name: "a",
			})
			if err != nil || deleted.GetKind() != want.kind || c.ResourceVersion()-before != want.changes {
				t.Errorf("%d changes, and %v, %v, want %+v", c.ResourceVersion()-before, deleted, err, want)
			}
		})
	}
}

// TestGracefulDeletion has a Pod that runs: it is there until it has ended. One that is not scheduled is deleted at once.
func TestGracefulDeletion(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(pod)
		advance(time.Second)
		c.expect(c.get(o), map[string]string{"status.phase": "Running"})
		if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		advance(podEnd / 2)
		c.expect(c.get(o), map[string]string{"metadata.deletionGracePeriodSeconds": "30", "metadata.deletionTimestamp": `"2000-01-01T00:00:31Z"`})
		advance(2 * time.Second)
		if c.get(o) != nil {
			t.Error("it is still there")
		}
		gated := c.create(strings.Replace(pod, "containers", "schedulingGates: [{name: x}], containers", 1))
		if err := c.of(gated).Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil || c.get(gated) != nil {
			t.Errorf("%v, it is %v", err, c.get(gated))
		}
	})
}

func TestNamespaces(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		n := c.create(`{apiVersion: v1, kind: Namespace, metadata: {name: other}}`)
		c.expect(n, map[string]string{"status.phase": "Active", "metadata.labels": "{kubernetes.io/metadata.name: other}"})
		inOther := func(text string) string { return strings.Replace(text, "namespace: default", "namespace: other", 1) }
		held := c.create(strings.Replace(inOther(configMap), "name: a", "name: held, finalizers: [example.com/a]", 1))
		free, elsewhere := c.create(inOther(widget)), c.create(widget)
		if err := c.of(n).Delete(c.ctx, "other", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		o := object(t, inOther(configMap))
		_, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
		expectError(t, err, metav1.StatusReasonForbidden, "being terminated")
		advance(time.Minute)
		c.expect(c.get(n), map[string]string{"status.phase": "Terminating"})
		if c.get(free) != nil || c.get(elsewhere) == nil {
			t.Errorf("they are %v and %v", c.get(free), c.get(elsewhere))
		}
		c.merge(held, "metadata: {finalizers: null}")
		advance(time.Minute)
		if c.get(n) != nil {
			t.Errorf("it is %v", c.get(n))
		}
	})
}
