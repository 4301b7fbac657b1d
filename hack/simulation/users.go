// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// kind is a kind of step. do takes it and returns what it did, or nothing if there was nothing to do.
type kind struct {
	name   string
	weight int // how often it is taken
	do     func(w *walk, s step) string
}

// kinds are what users do to Foos and to their Deployments, and what happens to the instances of the controller and to the API server.
var kinds = slices.Concat([]kind{
	{"create", 4, createFoo},
	{"scale", 3, changing("changes", foos, func(_ *walk, s step, foo *object) { setReplicas(foo, int64(s.argument%5+1)) })},
	{"rename", 4, changing("changes", foos, func(_ *walk, s step, foo *object) { setDeploymentName(foo, deploymentName(s.argument)) })},
	{"delete", 2, deleteOne(foos)},
	{"renameAndBack", 3, renameAndBack},
	{"recreate", 3, recreateFoo},
	{"swap", 2, swapNames},
	{"illegalName", 1, storeIllegalName},
	{"finalizer", 1, changing("changes", foos, func(_ *walk, _ step, foo *object) { foo.SetFinalizers([]string{holdFinalizer}) })},

	{"deleteDeployment", 3, deleteOne(deployments)},
	{"scaleDeployment", 3, changing("scales", deployments, func(_ *walk, s step, d *object) { setReplicas(d, int64(s.argument%7)) })},
	{"setImage", 2, changing("sets the image of", deployments, func(_ *walk, _ step, d *object) { setImage(d, "apache") })},
	{"unlabel", 2, changing("removes the labels of", deployments, func(_ *walk, _ step, d *object) { d.SetLabels(nil) })},
	{"annotate", 1, changing("annotates", deployments, func(_ *walk, s step, d *object) {
		d.SetAnnotations(map[string]string{"note": fmt.Sprint(s.argument)})
	})},
	{"orphan", 2, changing("removes the owner references of", deployments, func(_ *walk, _ step, d *object) { d.SetOwnerReferences(nil) })},
	{"adopt", 1, changing("makes a Foo the controller of", deployments, adopt)},
}, faultKinds)

const (
	// illegalName is no name that a Deployment can have, and holdFinalizer a finalizer that a user removes at the end.
	illegalName   = "Not_A_Name"
	holdFinalizer = "example.com/hold"
)

func fooName(n int) string        { return fmt.Sprintf("foo-%d", n%fooCount) }
func deploymentName(n int) string { return fmt.Sprintf("deployment-%d", n%nameCount) }

// nameOf is the name of the nth object of a resource.
var nameOf = map[string]func(n int) string{foos: fooName, deployments: deploymentName}

// newFoo returns a Foo. Without replicas if they are 0.
func newFoo(name, deploymentName string, replicas int64) *object {
	foo := &object{Object: map[string]any{"spec": map[string]any{"deploymentName": deploymentName}}}
	foo.SetGroupVersionKind(resources[foos].kind)
	foo.SetNamespace(metav1.NamespaceDefault)
	foo.SetName(name)
	if replicas > 0 {
		setReplicas(foo, replicas)
	}
	return foo
}

func createFoo(w *walk, s step) string {
	foo := newFoo(fooName(s.target), deploymentName(s.argument), int64(s.argument/nameCount%4))
	if w.server.write(user, "create", foos, foo, foo) != nil {
		return "" // It exists.
	}
	return "creates " + describe(foo)
}

// deleteOne deletes an object of a resource with one of the propagation policies.
func deleteOne(resource string) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		policy := []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
		}[s.argument%3]
		o := w.get(resource, nameOf[resource](s.target))
		if o == nil || o.GetDeletionTimestamp() != nil ||
			w.server.write(user, "delete", resource, o, metav1.DeleteOptions{PropagationPolicy: &policy}) != nil {
			return ""
		}
		return fmt.Sprintf("deletes %s %s, propagation policy %s", o.GetKind(), o.GetName(), policy)
	}
}

// recreateFoo deletes a Foo and creates it again, before the garbage collector deletes its Deployment.
func recreateFoo(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil || foo.GetDeletionTimestamp() != nil || w.server.write(user, "delete", foos, foo, metav1.DeleteOptions{}) != nil {
		return ""
	}
	recreated := newFoo(foo.GetName(), deploymentNameOf(foo), number(foo, "spec", "replicas"))
	_ = w.server.write(user, "create", foos, recreated, recreated) // A finalizer may hold the old one.
	return "deletes and creates again " + describe(recreated)
}

// changing returns a step that changes an object of a resource.
func changing(verb, resource string, do func(w *walk, s step, o *object)) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		return w.change(user, verb, resource, nameOf[resource](s.target), func(o *object) { do(w, s, o) })
	}
}

// change updates an object, unless there is none or nothing changes, and returns what it did.
func (w *walk) change(client, verb, resource, name string, do func(o *object)) string {
	found := w.get(resource, name)
	if found == nil {
		return ""
	}
	changed := found.DeepCopy()
	do(changed)
	if equality.Semantic.DeepEqual(changed, found) || w.server.write(client, "update", resource, changed, changed) != nil {
		return ""
	}
	return verb + " " + describe(changed)
}

// renameAndBack changes the deploymentName of a Foo, and soon changes it back.
func renameAndBack(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil || deploymentNameOf(foo) == deploymentName(s.argument) {
		return ""
	}
	time.AfterFunc(s.duration(3*time.Second), func() { w.tell(user, "%s", w.rename(s.target, deploymentNameOf(foo))) })
	return w.rename(s.target, deploymentName(s.argument))
}

func (w *walk) rename(n int, name string) string {
	return w.change(user, "changes", foos, fooName(n), func(foo *object) { setDeploymentName(foo, name) })
}

// swapNames swaps the deploymentNames of two Foos.
func swapNames(w *walk, s step) string {
	a, b := w.get(foos, fooName(s.target)), w.get(foos, fooName(s.argument))
	if a == nil || b == nil {
		return ""
	}
	return strings.Trim(w.rename(s.target, deploymentNameOf(b))+"; "+w.rename(s.argument, deploymentNameOf(a)), "; ")
}

// storeIllegalName stores a Foo that today's CRD does not allow.
func storeIllegalName(w *walk, s step) string {
	return w.change(storage, "stores, without validation,", foos, fooName(s.target), func(foo *object) { setDeploymentName(foo, illegalName) })
}

// adopt makes a Foo the controller of a Deployment that has none.
func adopt(w *walk, s step, d *object) {
	if foo := w.get(foos, fooName(s.argument)); foo != nil && metav1.GetControllerOf(d) == nil {
		d.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(foo, resources[foos].kind)})
	}
}

// get returns an object of the namespace of all steps, or nil if there is none.
func (w *walk) get(resource, name string) *object {
	return w.server.get(resource, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name})
}

// describe returns the kind and the name of a Foo or a Deployment, and the fields that steps change.
func describe(o *object) string {
	var fields []string
	if name := deploymentNameOf(o); name != "" {
		fields = append(fields, "deploymentName "+name)
	}
	if replicas, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); ok {
		fields = append(fields, fmt.Sprintf("replicas %d", replicas))
	}
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		fields = append(fields, "finalizers "+strings.Join(finalizers, " "))
	}
	return fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), strings.Join(fields, ", "))
}

func deploymentNameOf(foo *object) string        { return text(foo, "spec", "deploymentName") }
func setDeploymentName(foo *object, name string) { set(foo, name, "spec", "deploymentName") }
func setReplicas(o *object, replicas int64)      { set(o, replicas, "spec", "replicas") }

func setImage(d *object, image string) {
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	for _, container := range containers {
		container.(map[string]any)["image"] = image
	}
	set(d, containers, "spec", "template", "spec", "containers")
}

// text, number and set read and set a field whose parents are objects. One that is not there is empty, or 0, and so are those of nil.

func text(o *object, path ...string) string {
	text, _ := value(o, path).(string)
	return text
}

func number(o *object, path ...string) int64 {
	number, _ := value(o, path).(int64)
	return number
}

func value(o *object, path []string) any {
	if o == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

func set(o *object, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}
