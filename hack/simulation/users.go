// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	{"scale", 3, changeFoo(func(w *walk, s step, foo *object) { set(foo, int64(s.argument%5+1), "spec", "replicas") })},
	{"rename", 4, changeFoo(func(w *walk, s step, foo *object) { set(foo, deploymentName(s.argument), "spec", "deploymentName") })},
	{"delete", 2, deleteFoo},
	{"renameAndBack", 3, renameAndBack},
	{"recreate", 3, recreateFoo},
	{"swap", 2, swapNames},
	{"illegalName", 1, storeIllegalName},
	{"finalizer", 1, changeFoo(func(w *walk, s step, foo *object) { foo.SetFinalizers([]string{holdFinalizer}) })},

	{"deleteDeployment", 3, deleteDeployment},
	{"scaleDeployment", 3, changeDeployment("scales", func(d *object, s step) { set(d, int64(s.argument%7), "spec", "replicas") })},
	{"setImage", 2, changeDeployment("sets the image of", func(d *object, s step) { setImage(d, "apache") })},
	{"unlabel", 2, changeDeployment("removes the labels of", func(d *object, s step) { d.SetLabels(nil) })},
	{"annotate", 1, changeDeployment("annotates", func(d *object, s step) { d.SetAnnotations(map[string]string{"note": fmt.Sprint(s.argument)}) })},
	{"orphan", 2, changeDeployment("removes the owner references of", func(d *object, s step) { d.SetOwnerReferences(nil) })},
	{"adopt", 1, adopt},
}, faultKinds)

const (
	// illegalName is no name that a Deployment can have, and holdFinalizer a finalizer that a user removes at the end.
	illegalName   = "Not_A_Name"
	holdFinalizer = "example.com/hold"
)

func fooName(n int) string        { return fmt.Sprintf("foo-%d", n%fooCount) }
func deploymentName(n int) string { return fmt.Sprintf("deployment-%d", n%nameCount) }

// newFoo returns a Foo. Without replicas if they are 0.
func newFoo(name, deploymentName string, replicas int64) *object {
	foo := &object{Object: map[string]any{"spec": map[string]any{"deploymentName": deploymentName}}}
	foo.SetGroupVersionKind(resources[foos].kind)
	foo.SetNamespace(metav1.NamespaceDefault)
	foo.SetName(name)
	if replicas > 0 {
		set(foo, replicas, "spec", "replicas")
	}
	return foo
}

func createFoo(w *walk, s step) string {
	foo := newFoo(fooName(s.target), deploymentName(s.argument), int64(s.argument/nameCount%4))
	if w.server.write(user, "create", foos, foo, "") != nil {
		return "" // It exists.
	}
	return fmt.Sprintf("creates Foo %s: %s", foo.GetName(), specOf(foo))
}

func deleteFoo(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil || foo.GetDeletionTimestamp() != nil || w.server.remove(user, foos, foo, propagation(s)) != nil {
		return ""
	}
	return fmt.Sprintf("deletes Foo %s, propagation policy %s", foo.GetName(), policy(s))
}

// recreateFoo deletes a Foo and creates it again, before the garbage collector deletes its Deployment.
func recreateFoo(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil || foo.GetDeletionTimestamp() != nil || w.server.remove(user, foos, foo, metav1.DeleteOptions{}) != nil {
		return ""
	}
	replicas, _, _ := unstructured.NestedInt64(foo.Object, "spec", "replicas")
	recreated := newFoo(foo.GetName(), deploymentNameOf(foo), replicas)
	_ = w.server.write(user, "create", foos, recreated, "") // A finalizer may hold the old one.
	return fmt.Sprintf("deletes Foo %s and creates it again: %s", foo.GetName(), specOf(recreated))
}

// renameAndBack changes the deploymentName of a Foo, and soon changes it back.
func renameAndBack(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil || deploymentNameOf(foo) == deploymentName(s.argument) {
		return ""
	}
	time.AfterFunc(s.duration(3*time.Second), func() {
		back := changeFoo(func(_ *walk, _ step, changed *object) { set(changed, deploymentNameOf(foo), "spec", "deploymentName") })
		if what := back(w, s); what != "" {
			w.tell(user, "%s", what)
		}
	})
	return changeFoo(func(_ *walk, s step, foo *object) { set(foo, deploymentName(s.argument), "spec", "deploymentName") })(w, s)
}

func changeFoo(change func(w *walk, s step, foo *object)) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		foo := w.get(foos, fooName(s.target))
		if foo == nil {
			return ""
		}
		changed := foo.DeepCopy()
		change(w, s, changed)
		if w.server.write(user, "update", foos, changed, "") != nil {
			return ""
		}
		return fmt.Sprintf("changes Foo %s: %s", foo.GetName(), specOf(changed))
	}
}

// swapNames swaps the deploymentNames of two Foos.
func swapNames(w *walk, s step) string {
	a, b := w.get(foos, fooName(s.target)), w.get(foos, fooName(s.argument))
	if a == nil || b == nil || a == b {
		return ""
	}
	nameOfA, nameOfB := deploymentNameOf(a), deploymentNameOf(b)
	a, b = a.DeepCopy(), b.DeepCopy()
	set(a, nameOfB, "spec", "deploymentName")
	set(b, nameOfA, "spec", "deploymentName")
	_ = w.server.write(user, "update", foos, a, "")
	_ = w.server.write(user, "update", foos, b, "")
	return fmt.Sprintf("swaps names: Foo %s: %s, Foo %s: %s", a.GetName(), specOf(a), b.GetName(), specOf(b))
}

// storeIllegalName stores a Foo that today's CRD does not allow.
func storeIllegalName(w *walk, s step) string {
	foo := w.get(foos, fooName(s.target))
	if foo == nil {
		return ""
	}
	changed := foo.DeepCopy()
	set(changed, illegalName, "spec", "deploymentName")
	_ = w.server.write(storage, "update", foos, changed, "")
	return fmt.Sprintf("changes Foo %s, without validation: %s", foo.GetName(), specOf(changed))
}

func deleteDeployment(w *walk, s step) string {
	d := w.get(deployments, deploymentName(s.target))
	if d == nil || w.server.remove(user, deployments, d, propagation(s)) != nil {
		return ""
	}
	return fmt.Sprintf("deletes Deployment %s, propagation policy %s", d.GetName(), policy(s))
}

func changeDeployment(verb string, change func(d *object, s step)) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		d := w.get(deployments, deploymentName(s.target))
		if d == nil {
			return ""
		}
		changed := d.DeepCopy()
		change(changed, s)
		if w.server.write(user, "update", deployments, changed, "") != nil {
			return ""
		}
		return fmt.Sprintf("%s Deployment %s: %d replicas", verb, d.GetName(), *toDeployment(changed).Spec.Replicas)
	}
}

// adopt makes a Foo the controller of a Deployment that has none.
func adopt(w *walk, s step) string {
	foo, d := w.get(foos, fooName(s.argument)), w.get(deployments, deploymentName(s.target))
	if foo == nil || d == nil || metav1.GetControllerOf(d) != nil {
		return ""
	}
	adopted := d.DeepCopy()
	adopted.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(foo, resources[foos].kind)})
	if w.server.write(user, "update", deployments, adopted, "") != nil {
		return ""
	}
	return fmt.Sprintf("makes Foo %s the controller of Deployment %s", foo.GetName(), d.GetName())
}

// get returns an object of the namespace of all steps, or nil if there is none.
func (w *walk) get(resource, name string) *object {
	return w.server.get(resource, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name})
}

func policy(s step) metav1.DeletionPropagation {
	return []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}[s.argument%3]
}

func propagation(s step) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(policy(s))}
}

func withoutHold(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(finalizer string) bool { return finalizer == holdFinalizer })
}

func deploymentNameOf(foo *object) string {
	name, _, _ := unstructured.NestedString(foo.Object, "spec", "deploymentName")
	return name
}

func holderOf(lease *object) string {
	if lease == nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

func specOf(foo *object) string {
	text := "deploymentName " + deploymentNameOf(foo)
	if replicas, ok, _ := unstructured.NestedInt64(foo.Object, "spec", "replicas"); ok {
		text += fmt.Sprintf(", replicas %d", replicas)
	}
	if finalizers := foo.GetFinalizers(); len(finalizers) > 0 {
		text += ", finalizers " + strings.Join(finalizers, " ")
	}
	return text
}

// set sets a field whose parents are objects.
func set(o *object, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}

func setImage(d *object, image string) {
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	for _, container := range containers {
		container.(map[string]any)["image"] = image
	}
	set(d, containers, "spec", "template", "spec", "containers")
}

func toDeployment(o *object) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	convert(o, d)
	return d
}
