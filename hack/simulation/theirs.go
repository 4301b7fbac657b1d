// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// programActions are what users do to the objects that the program has created, whatever their kind.
var programActions = []action{
	{"deleteTheirs", 3, onTheirs(deleteTheirs)},
	{"changeTheirs", 5, changingTheirs(changeField)},
	{"removeFieldOfTheirs", 2, changingTheirs(removeField)},
	{"unlabel", 2, changingTheirs(func(_ *walk, _ step, o *object, _ []field) string {
		o.SetLabels(nil)
		return "removes the labels of"
	})},
	{"addItemToTheirs", 2, changingTheirs(addItem)},
	{"annotateTheirs", 1, changingTheirs(func(_ *walk, s step, o *object, _ []field) string { return annotate(o, s.argument) })},
	{"orphan", 2, changingTheirs(func(_ *walk, _ step, o *object, _ []field) string {
		o.SetOwnerReferences(nil)
		return "removes the owner references of"
	})},
	{"replace", 1, onTheirs(replace)},
	{"adopt", 1, changingTheirs(adopt)},
}

// theirs returns the objects that the program has created, and that are not the users' own.
func (w *walk) theirs() (refs []reference) {
	for _, o := range w.server.All() {
		if w.hasCreated(o.GetUID()) {
			refs = append(refs, w.referenceTo(o))
		}
	}
	return refs
}

// onTheirs returns a step about one of the objects that the program has created. Which one does not depend on those that are left out.
func onTheirs(do func(w *walk, s step, ref reference) string) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		if chosen := pick(w.theirs(), s.target, reference.String); chosen != nil {
			return do(w, s, *chosen)
		}
		return ""
	}
}

// pick returns one of a list, the same one if others are left out, or nil if it is empty.
func pick[T any](list []T, n int, name func(T) string) (chosen *T) {
	var least uint64
	for i, candidate := range list {
		const golden = 0x9E3779B97F4A7C15 // It spreads the hashes of similar names.
		if hash := (hashOf(name(candidate)) ^ uint64(n)*golden) * golden; chosen == nil || hash < least {
			chosen, least = &list[i], hash
		}
	}
	return chosen
}

// changingTheirs returns a step that changes an object of the program. set are the fields that the program sets, but for its metadata.
func changingTheirs(do func(w *walk, s step, o *object, set []field) string) func(w *walk, s step) string {
	return onTheirs(func(w *walk, s step, ref reference) string {
		return w.change(ref, func(o *object) string { return do(w, s, o, w.setFields(ref, o)) })
	})
}

// setFields returns the fields of an object that the program sets, but for its metadata.
func (w *walk) setFields(ref reference, o *object) (set []field) {
	for _, f := range fieldsOf(o) {
		if w.isSet(ref.GroupResource, f.name) && !strings.HasPrefix(f.name, "metadata.") {
			set = append(set, f)
		}
	}
	return set
}

func nameOf(f field) string { return f.name }

// changeField changes a field that the program has set.
func changeField(_ *walk, s step, _ *object, set []field) string {
	f := pick(set, s.argument, nameOf)
	if f == nil {
		return ""
	}
	switch v := f.value.(type) {
	case int64:
		f.set(max(0, v+int64(s.argument%7)-3))
	case bool:
		f.set(!v)
	case string:
		f.set(v + "-x")
	default:
		return ""
	}
	return "changes " + f.name + " of"
}

// removeField removes a field that the program has set.
func removeField(_ *walk, s step, _ *object, set []field) string {
	f := pick(set, s.argument, nameOf)
	if f == nil {
		return ""
	}
	f.remove()
	return "removes " + f.name + " of"
}

// addItem adds an item to a list in which the program sets a field of another one, such as a second container.
func addItem(_ *walk, _ step, o *object, set []field) string {
	for _, f := range set {
		list, _, _ := strings.Cut(f.name, "[")
		items, _, _ := unstructured.NestedSlice(o.Object, strings.Split(list, ".")...)
		if len(items) != 1 {
			continue // It is no list, or has been added to.
		}
		item, _ := runtime.DeepCopyJSONValue(items[0]).(map[string]any)
		if key := keyOf(item); key != "" {
			item[key] = fmt.Sprint(item[key], "-added")
			setField(o, append(items, item), strings.Split(list, ".")...)
			return "adds an item to " + list + " of"
		}
	}
	return ""
}

// deleteTheirs deletes an object of the program, or one of the Pods that it controls, if there are any.
func deleteTheirs(w *walk, s step, ref reference) string {
	own := w.get(ref)
	controlled := slices.DeleteFunc(w.server.List(pods, ref.Namespace), func(pod *object) bool { return own == nil || !metav1.IsControlledBy(pod, own) })
	if len(controlled) > 0 && s.argument%2 == 0 {
		return w.delete(w.referenceTo(controlled[s.argument/2%len(controlled)]), metav1.DeletePropagationBackground)
	}
	return w.delete(ref, policies[s.argument%len(policies)])
}

// replace replaces an object of the program by one of a user that has the same name.
func replace(w *walk, _ step, ref reference) string {
	o := w.get(ref)
	if o == nil || o.GetDeletionTimestamp() != nil || w.user.Delete(o, metav1.DeleteOptions{}) != nil {
		return ""
	}
	own := asNew(o)
	if !w.create(own) {
		return "deletes " + describe(own)
	}
	return "replaces by one of its own " + describe(own)
}

// adopt makes an object of a user the controller of an object that has none.
func adopt(w *walk, s step, o *object, _ []field) string {
	k, _, ref := w.usersObject(s.argument)
	owner := w.get(ref)
	if owner == nil || metav1.GetControllerOf(o) != nil {
		return ""
	}
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, k.Kind)})
	w.lock.Lock()
	defer w.lock.Unlock()
	w.adopted[o.GetUID()] = owner.GetUID()
	return "makes " + ref.Name + " the controller of"
}

// isAdopted reports whether users have made an object of theirs the controller of another object, and it still is.
func (w *walk) isAdopted(o *object) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	adopter, isAdopted := w.adopted[o.GetUID()]
	controller := metav1.GetControllerOfNoCopy(o)
	return isAdopted && controller != nil && controller.UID == adopter
}

// takeBack deletes what users have made an object the controller of, and still is: for whom it was created, it could not be created again.
func (w *walk) takeBack() {
	for _, o := range w.server.All() {
		if w.isAdopted(o) {
			w.tell(user, w.delete(w.referenceTo(o), metav1.DeletePropagationBackground))
		}
	}
}
