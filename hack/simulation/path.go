// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var pods = corev1.Resource("pods")

const (
	// maxOrders is in how many orders the users' objects are created, until one leads to the same end.
	maxOrders = 6
	// orderDelay is how long after each other they are created.
	orderDelay = 5 * time.Second
)

// compare judges SameEnd: it gives fresh clusters the users' objects as they are in the end, and compares what becomes of them. First come,
// first served: what owns something after the walk, and not in a fresh cluster, comes earlier in the next one.
func (w *walk) compare() {
	defer w.idle()() // Here, nothing happens meanwhile.
	w.lock.Lock()
	all := Cluster{w}.filter(func(reference, *object) bool { return true })
	w.lock.Unlock()
	order := w.inOrder(all)
	var difference string
	for range maxOrders {
		fresh := w.freshCluster(all, order)
		if broken := fresh.fatal(); broken != nil {
			w.violated(SameEnd, "in a fresh cluster: %s", broken)
			return
		}
		w.judgeCopies(fresh)
		var earlier string
		if difference, earlier = w.differsFrom(fresh); difference == "" || earlier == "" {
			break
		}
		n := slices.IndexFunc(order, func(o *object) bool { return nameOfOwner(o) == earlier })
		if n <= 0 {
			break
		}
		order = slices.Insert(slices.Delete(slices.Clone(order), n, n+1), 0, order[n])
	}
	if difference != "" {
		w.violated(SameEnd, "%s", difference)
	}
}

// inOrder returns the users' objects: those that own something come first.
func (w *walk) inOrder(all []*object) (order []*object) {
	owning := map[types.UID]int{}
	for _, o := range all {
		for _, ref := range o.GetOwnerReferences() {
			owning[ref.UID] = -1
		}
		if w.isUsers(w.referenceTo(o).GroupResource) && !w.hasCreated(o.GetUID()) {
			order = append(order, o)
		}
	}
	slices.SortStableFunc(order, func(a, b *object) int { return owning[a.GetUID()] - owning[b.GetUID()] })
	return order
}

// freshCluster returns a cluster that got what belongs to nobody, and then the users' objects in an order.
func (w *walk) freshCluster(all, order []*object) *walk {
	uids := map[types.UID]bool{}
	for _, o := range all {
		uids[o.GetUID()] = true
	}
	fresh := newWalk(w.tester, script{})
	fresh.judges = nil // It is there to compare with.
	inBubbles.Store(w.bubble, fresh)
	defer inBubbles.Store(w.bubble, w)
	isOthers := func(o *object) bool {
		isOwned := slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return uids[ref.UID] })
		created := w.created[o.GetUID()]
		isTheirs := created != nil && len(created.GetOwnerReferences()) == 0
		return !w.isUsersOwn(o) && !isTheirs && (!isOwned || created == nil && w.given(o) != nil)
	}
	w.lock.Lock()
	others := slices.DeleteFunc(slices.Clone(all), func(o *object) bool { return !isOthers(o) })
	w.lock.Unlock()
	fresh.begin(1, func() { // A program may read them when it starts.
		for _, o := range others {
			created := asNew(o)
			if example := w.given(o); example != nil && example.Object["status"] != nil {
				created.Object["status"] = o.DeepCopy().Object["status"]
			}
			_ = fresh.createWithStatus(created) // What admission denies by now is absent.
		}
	})
	defer fresh.end()
	fresh.sleep(startTime)
	for _, o := range order {
		fresh.sleep(orderDelay)
		fresh.create(asNew(o))
	}
	fresh.settle()
	return fresh
}

// fatal returns the broken promise without which a walk cannot go on, or nil.
func (s *story) fatal() *violation {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, promise := range fatal {
		if s.broken[promise] != nil {
			return s.broken[promise]
		}
	}
	return nil
}

// differsFrom returns in what a fresh cluster differs, and an owner that owns something only here.
func (w *walk) differsFrom(fresh *walk) (difference, earlier string) {
	set := maps.Clone(w.set)
	maps.Copy(set, fresh.set)
	here, there := w.endState(set), fresh.endState(set)
	keys := maps.Clone(here)
	maps.Copy(keys, there)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, b := here[key], there[key]
		what := differing(a.fields, b.fields)
		if what == "" || a.isByDesign || b.isByDesign {
			continue
		}
		if difference == "" {
			difference = key + ": " + what
		}
		for _, owner := range a.owners {
			if !slices.Contains(b.owners, owner) && earlier == "" {
				earlier = owner
			}
		}
	}
	return difference, earlier
}

// differing tells in which fields an object differs, or that it is only in one of two clusters.
func differing(walked, fresh map[string]string) string {
	switch {
	case walked == nil:
		return "after the walk it does not exist, and in a fresh cluster it does"
	case fresh == nil:
		return "after the walk it exists, and in a fresh cluster it does not"
	}
	var parts []string
	names := maps.Clone(walked)
	maps.Copy(names, fresh)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := walked[name], fresh[name]; a != b {
			a, b = fromDifference(a, b)
			parts = append(parts, fmt.Sprintf("%s is %q, and in a fresh cluster %q", name, a, b))
		}
	}
	return strings.Join(parts, "; ")
}

// fromDifference returns two texts as stories tell them, without most of what they begin with alike.
func fromDifference(a, b string) (string, string) {
	alike := 0
	for alike < min(len(a), len(b)) && a[alike] == b[alike] {
		alike++
	}
	const kept = 20
	if alike <= 2*kept {
		return shortened(a), shortened(b)
	}
	begin := strings.ToValidUTF8(a[alike-kept:alike], "")
	return "..." + shortened(begin+a[alike:]), "..." + shortened(begin+b[alike:])
}

// end is what of an object is compared: its fields, and its owners by kind and name.
type end struct {
	fields     map[string]string
	owners     []string
	isByDesign bool // It depends on the path by design.
}

func nameOfOwner(o *object) string { return o.GetKind() + " " + o.GetName() }

// endState returns the objects without what depends on the path: UIDs, versions, times, generations, generated names and addresses, wherever
// they are reported. Of what the program has created, only the fields that it has set count. What the Pods of workloads are follows from these.
func (w *walk) endState(set map[fieldOf]bool) map[string]end {
	w.lock.Lock()
	defer w.lock.Unlock()
	byUID, replaced := map[types.UID]*object{}, []string{}
	all := Cluster{w}.filter(func(reference, *object) bool { return true })
	for _, o := range all {
		byUID[o.GetUID()] = o
	}
	byLength := slices.SortedFunc(slices.Values(all), func(a, b *object) int { return len(b.GetName()) - len(a.GetName()) }) // One name may begin another.
	for _, o := range byLength {
		replaced = append(replaced, string(o.GetUID()), "<UID of "+nameOfOwner(o)+">")
		if name := endName(o, byUID); name != o.GetName() {
			replaced = append(replaced, o.GetName(), name)
		}
		for _, address := range []string{text(o, "spec", "clusterIP"), text(o, "status", "podIP")} {
			if address != "" && address != corev1.ClusterIPNone {
				replaced = append(replaced, address, "<address of "+nameOfOwner(o)+">")
			}
		}
	}
	chosen := strings.NewReplacer(replaced...)
	state := map[string]end{}
	for _, o := range all {
		if w.isOfWorkload(o) {
			continue
		}
		normal, its := o.DeepCopy(), end{fields: map[string]string{}}
		var owners []*object
		for _, ref := range o.GetOwnerReferences() {
			if owner := byUID[ref.UID]; owner != nil {
				owners, its.owners = append(owners, owner), append(its.owners, nameOfOwner(owner))
			}
		}
		its.isByDesign = w.ByDesign != nil && w.ByDesign(normal, owners)
		for _, f := range w.comparedFields(normal, set) {
			its.fields[f.name] = chosen.Replace(f.text())
		}
		state[w.endKey(o, chosen, state)] = its
	}
	return state
}

// isOfWorkload reports whether an object is a Pod that the controller of a workload has created, and may have left. The lock is held.
func (w *walk) isOfWorkload(o *object) bool {
	return w.referenceTo(o).GroupResource == pods && w.created[o.GetUID()] == nil && !w.isUsers(pods) && w.given(o) == nil
}

// suffix is the end of a name that k8s.io/apimachinery/pkg/util/rand has generated.
var suffix = regexp.MustCompile("-[bcdfghjklmnpqrstvwxz2456789]{5}$")

// endName returns the name of an object with an asterisk for each random end: its own, and that of the owner with whose name it begins. A program
// may generate names itself, of those of owners.
func endName(o *object, byUID map[types.UID]*object) string {
	name := o.GetName()
	generated := o.GetGenerateName()
	if generated != "" && suffix.MatchString("-"+strings.TrimPrefix(name, generated)) { // The Pods of a StatefulSet have other ends.
		name = generated + "*"
	}
	var owner *object
	for _, ref := range o.GetOwnerReferences() {
		other := byUID[ref.UID]
		if other != nil && other != o && strings.HasPrefix(name, other.GetName()) && (owner == nil || len(other.GetName()) > len(owner.GetName())) {
			owner = other
		}
	}
	if owner == nil {
		return name
	}
	return endName(owner, byUID) + suffix.ReplaceAllString(name[len(owner.GetName()):], "-*")
}

// endKey returns what identifies an object in clusters in which UIDs and generated names differ. Names may have them as parts.
func (w *walk) endKey(o *object, chosen *strings.Replacer, state map[string]end) string {
	ref := w.referenceTo(o)
	first := fmt.Sprintf("%s %s/%s", ref.Resource, ref.Namespace, chosen.Replace(ref.Name))
	key := first
	for n := 2; state[key].fields != nil; n++ {
		key = fmt.Sprintf("%s (%d)", first, n)
	}
	return key
}

// isGeneration reports whether a field of a status is an observed generation.
func isGeneration(name string) bool { return strings.HasSuffix(name, ".observedGeneration") }

// isVersion reports whether a field is the resourceVersion of what is referred to, or counts the changes of a template.
func isVersion(f field) bool {
	return f.key == "resourceVersion" || strings.HasSuffix(f.name, appsv1.DeprecatedTemplateGeneration)
}

// comparedFields returns the fields of an object that are compared.
func (w *walk) comparedFields(o *object, set map[fieldOf]bool) (compared []field) {
	ref := w.referenceTo(o)
	isUsers := w.isUsersOwn(o)
	for _, f := range fieldsOf(o) {
		isCompared := isUsers && !strings.HasPrefix(f.name, "metadata.") || set[fieldOf{ref.GroupResource, f.name}]
		if isCompared && !isVersion(f) && !(isUnknown(f.name) && slices.Contains(w.exempt, OwnFields)) {
			compared = append(compared, f)
		}
	}
	var owners []string
	for _, owner := range o.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s, controller %t", owner.Kind, owner.Name, owner.Controller != nil && *owner.Controller))
	}
	slices.Sort(owners) // They have no order.
	compared = append(compared, field{name: "metadata.ownerReferences", value: strings.Join(owners, "; ")})
	compared = append(compared, field{name: "metadata.finalizers", value: strings.Join(o.GetFinalizers(), " ")})
	if !isUsers {
		return compared
	}
	for _, f := range statusFieldsOf(o) {
		text, _ := f.value.(string)
		observed, _ := generation(f.value)
		switch _, err := time.Parse(time.RFC3339, text); {
		case isVersion(f):
			continue
		case err == nil:
			f.value = "<time>"
		case isGeneration(f.name) && observed == o.GetGeneration():
			f.value = "<generation>"
		}
		compared = append(compared, f)
	}
	return compared
}
