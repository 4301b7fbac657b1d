// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// action is what a step may be. take takes the step and returns what it did, or nothing if there was nothing to do.
type action struct {
	name   string
	weight int // how often it is taken
	take   func(w *walk, s step) string
}

// userActions are what users do to their own objects. The first one creates one.
var userActions = []action{
	{"create", 4, createOne},
	{"change", 8, changingOne(func(s step, k *userKind, o *object) string { return k.change(o, s.argument) })},
	{"changeAndBack", 3, changeAndBack},
	{"swap", 2, swapSpecs},
	{"delete", 2, deleteOne},
	{"recreate", 3, recreateOne},
	{"hold", 1, changingOne(func(_ step, _ *userKind, o *object) string {
		o.SetFinalizers(append(o.GetFinalizers(), holdFinalizer))
		return "adds a finalizer to"
	})},
	{"annotate", 1, changingOne(func(s step, _ *userKind, o *object) string { return annotate(o, s.argument) })},
}

// holdFinalizer is a finalizer that a user removes at the end.
const holdFinalizer = "example.com/hold"

// policies are those with which users delete.
var policies = []metav1.DeletionPropagation{
	metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
}

// reference is where an object is.
type reference struct {
	schema.GroupResource
	types.NamespacedName
}

// String returns the resource and the name.
func (r reference) String() string { return r.Resource + " " + r.Name }

// referenceTo returns where an object is.
func (w *walk) referenceTo(o *object) reference {
	ref := reference{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
	if r := w.server.ForKind(o.GroupVersionKind().GroupKind()); r != nil {
		ref.GroupResource = r.GroupResource()
	}
	return ref
}

// usersObject returns the nth object of users: its kind, its number among those of the kind, and where it is.
func (w *walk) usersObject(n int) (k *userKind, number int, ref reference) {
	k, number = w.kinds[n%len(w.kinds)], n/len(w.kinds)%w.Objects
	ref.GroupResource, ref.Name = k.GroupResource(), fmt.Sprintf("%s-%d", strings.ToLower(k.Kind.Kind), number)
	if k.Namespaced {
		ref.Namespace = metav1.NamespaceDefault
	}
	return k, number, ref
}

// get returns a copy of an object, or nil if there is none.
func (w *walk) get(ref reference) *object {
	return w.user.Get(ref.GroupResource, ref.Namespace, ref.Name)
}

// create creates an object, and reports whether that was possible.
func (w *walk) create(o *object) bool {
	_, err := w.user.Create(o)
	return err == nil
}

func createOne(w *walk, s step) string {
	k, number, ref := w.usersObject(s.target)
	o := k.newObject(ref.Name, ref.Namespace, number, s.argument)
	isCreated := w.create(o)
	if !isCreated && w.get(ref) == nil { // It was denied. The example itself may not be.
		o = k.newObject(ref.Name, ref.Namespace, number, 0)
		isCreated = w.create(o)
	}
	if !isCreated {
		return ""
	}
	return "creates " + describe(o)
}

// changingOne returns a step that changes an object of a user. do returns the verb that tells how.
func changingOne(do func(s step, k *userKind, o *object) string) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		k, _, ref := w.usersObject(s.target)
		return w.change(ref, func(o *object) string { return do(s, k, o) })
	}
}

// change updates an object, unless there is none or nothing changes, and returns what it did.
func (w *walk) change(ref reference, do func(o *object) string) string {
	found := w.get(ref)
	if found == nil {
		return ""
	}
	changed := found.DeepCopy()
	verb := do(changed)
	if verb == "" || equality.Semantic.DeepEqual(changed, found) {
		return ""
	}
	if _, err := w.user.Update(changed, ""); err != nil {
		return ""
	}
	return verb + " " + describeChange(found, changed)
}

// becomes gives an object the spec of another, or what it has instead.
func becomes(other *object) func(o *object) string {
	return func(o *object) string {
		changed := other.DeepCopy().Object
		for _, kept := range []string{"metadata", "status"} {
			delete(changed, kept)
			if v, ok := o.Object[kept]; ok {
				changed[kept] = v
			}
		}
		o.Object = changed
		return "changes"
	}
}

// changeAndBack changes an object, and soon changes it back.
func changeAndBack(w *walk, s step) string {
	k, _, ref := w.usersObject(s.target)
	before := w.get(ref)
	what := w.change(ref, func(o *object) string { return k.change(o, s.argument) })
	if what != "" {
		time.AfterFunc(s.duration(mindTime), func() { w.tell(user, w.change(ref, becomes(before))) })
	}
	return what
}

// mindTime is how soon users change their minds.
const mindTime = 3 * time.Second

// swapSpecs swaps the specs of two objects of a kind.
func swapSpecs(w *walk, s step) string {
	_, _, ref := w.usersObject(s.target)
	_, _, other := w.usersObject(s.target%len(w.kinds) + s.argument*len(w.kinds))
	a, b := w.get(ref), w.get(other)
	if a == nil || b == nil || ref == other {
		return ""
	}
	return strings.Trim(w.change(ref, becomes(b))+"; "+w.change(other, becomes(a)), "; ")
}

func deleteOne(w *walk, s step) string {
	_, _, ref := w.usersObject(s.target)
	return w.delete(ref, policies[s.argument%len(policies)])
}

// delete deletes an object, unless there is none, and returns what it did.
func (w *walk) delete(ref reference, policy metav1.DeletionPropagation) string {
	o := w.get(ref)
	if o == nil || o.GetDeletionTimestamp() != nil || w.user.Delete(o, metav1.DeleteOptions{PropagationPolicy: &policy}) != nil {
		return ""
	}
	return fmt.Sprintf("deletes %s %s, propagation policy %s", o.GetKind(), o.GetName(), policy)
}

// recreateOne deletes an object and creates it again, or another one of its name, before the garbage collector deletes what it owns.
func recreateOne(w *walk, s step) string {
	k, _, ref := w.usersObject(s.target)
	return w.recreate(ref, func(o *object) {
		if s.argument%2 == 1 {
			k.change(o, s.argument/2)
		}
	})
}

func (w *walk) recreate(ref reference, change func(o *object)) string {
	o := w.get(ref)
	if o == nil || o.GetDeletionTimestamp() != nil || w.user.Delete(o, metav1.DeleteOptions{}) != nil {
		return ""
	}
	recreated := asNew(o)
	change(recreated)
	if !w.create(recreated) {
		w.createOnceGone(recreated, time.Now().Add(mindTime))
		return "deletes " + describe(o) + "; as soon as it is gone, creates it again"
	}
	return "deletes and creates again " + describe(recreated)
}

// createOnceGone creates an object that a finalizer has held until then, unless that takes too long.
func (w *walk) createOnceGone(o *object, until time.Time) {
	time.AfterFunc(100*time.Millisecond, func() {
		switch {
		case w.create(o):
			w.tell(user, "creates again "+describe(o))
		case time.Now().Before(until) && !w.isEnded():
			w.createOnceGone(o, until)
		}
	})
}

// asNew returns an object as a user creates it.
func asNew(o *object) *object {
	created := o.DeepCopy()
	delete(created.Object, "metadata")
	delete(created.Object, "status")
	unstructured.RemoveNestedField(created.Object, "spec", apiserver.UnknownField)
	created.SetName(o.GetName())
	created.SetNamespace(o.GetNamespace())
	created.SetLabels(o.GetLabels())
	created.SetAnnotations(o.GetAnnotations())
	return created
}

func annotate(o *object, argument int) string {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["example.com/note"] = fmt.Sprint(argument)
	o.SetAnnotations(annotations)
	return "annotates"
}

// release removes the finalizers with which users hold objects.
func (w *walk) release() {
	for _, k := range w.kinds {
		for _, o := range w.server.List(k.GroupResource(), "") {
			w.tell(user, w.change(w.referenceTo(o), func(o *object) string {
				o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == holdFinalizer }))
				return "changes"
			}))
		}
	}
}
