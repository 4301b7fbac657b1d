// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// observation is a users' object and what it controls, from a time on.
type observation struct {
	at       time.Time
	object   *object
	its      []*object
	isJudged bool // The program could know that, and report it.
}

// number of a status that a program copies from a status of what it controls.
type copied struct {
	from fieldOf // of the users' objects
	to   fieldOf // of what they control
}

// copiesJudge records what the numbers in a status and in those of what it is about are, for judgeCopies.
func copiesJudge(w *walk) judge {
	return judge{moment: func() {
		controlled := w.controlled()
		for ref, o := range w.objects {
			if !w.isUsers(ref.GroupResource) || o.GetDeletionTimestamp() != nil {
				continue
			}
			s := observation{time.Now(), o, controlled[o.GetUID()], !w.hides() && !w.isLate(ref)}
			list := w.observations[o.GetUID()]
			if n := len(list); n == 0 || list[n-1].object != o || list[n-1].isJudged != s.isJudged || !slices.Equal(list[n-1].its, s.its) {
				w.observations[o.GetUID()] = append(list, s)
			}
		}
	}}
}

// controlled returns what each owner controls, by its UID. The lock is held.
func (w *walk) controlled() map[types.UID][]*object {
	controlled := map[types.UID][]*object{}
	for _, o := range (Cluster{w}).filter(func(reference, *object) bool { return true }) {
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			controlled[owner.UID] = append(controlled[owner.UID], o)
		}
	}
	return controlled
}

// judgeCopies judges, of Truth, the numbers that the program copies into a status. Which those are shows the end of a walk, and of clusters
// in which nothing has happened: there, they are the same for all objects, and not all the same number.
func (w *walk) judgeCopies(fresh *walk) {
	ends := append(w.endObservations(), fresh.endObservations()...)
	w.lock.Lock()
	defer w.lock.Unlock()
	copies, allowed := w.findCopies(ends), max(truthTime, w.electionTime())
	for _, list := range w.observations {
		for n, s := range list {
			if n+1 == len(list) || !s.isJudged || list[n+1].at.Sub(s.at) <= allowed {
				continue
			}
			if name, v := w.wrongCopy(s, copies); name != "" {
				w.violated(Truth, "for %s, %s %s says %s %d, which is that of nothing that it controls", list[n+1].at.Sub(s.at), s.object.GetKind(),
					s.object.GetName(), name, v)
			}
		}
	}
}

// endObservations returns the users' objects, each with what it controls.
func (w *walk) endObservations() (observations []observation) {
	w.lock.Lock()
	defer w.lock.Unlock()
	controlled := w.controlled()
	for ref, o := range w.objects {
		if its := controlled[o.GetUID()]; w.isUsers(ref.GroupResource) && len(its) == 1 {
			observations = append(observations, observation{object: o, its: its})
		}
	}
	return observations
}

// numbersOf returns the numbers in a status but for generations, by their names.
func numbersOf(o *object) map[string]int64 {
	numbers := map[string]int64{}
	for _, f := range statusFieldsOf(o) {
		if n, ok := f.value.(int64); ok && !isGeneration(f.name) {
			numbers[f.name] = n
		}
	}
	return numbers
}

// findCopies returns what is a copy in all observations, and whether that is of what has the name that the object gives. One that has always been
// the same number may be a coincidence.
func (w *walk) findCopies(observations []observation) map[copied]bool {
	seen, refuted, unnamed := map[copied]map[int64]bool{}, map[copied]bool{}, map[copied]bool{}
	for _, s := range observations {
		from, to := w.referenceTo(s.object).GroupResource, w.referenceTo(s.its[0]).GroupResource
		theirs := numbersOf(s.its[0])
		for name, n := range numbersOf(s.object) {
			for other, m := range theirs {
				c := copied{fieldOf{from, name}, fieldOf{to, other}}
				if seen[c] == nil {
					seen[c] = map[int64]bool{}
				}
				seen[c][n] = true
				refuted[c] = refuted[c] || n != m
				unnamed[c] = unnamed[c] || !w.isNamed(s.object, s.its[0])
			}
		}
	}
	copies := map[copied]bool{}
	for c, values := range seen {
		if !refuted[c] && len(values) > 1 {
			copies[c] = !unnamed[c]
		}
	}
	return copies
}

// wrongCopy returns a number in the status of an observation that is a copy of nothing that it may be a copy of. If there is nothing, or nothing
// of the name that the object gives, or but what users have made it the controller of, it may be 0.
func (w *walk) wrongCopy(s observation, copies map[copied]bool) (name string, v int64) {
	from := w.referenceTo(s.object).GroupResource
	for name, n := range numbersOf(s.object) {
		isCopy, isRight := false, false
		for c, isNamed := range copies {
			if c.from != (fieldOf{from, name}) {
				continue
			}
			isCopy = true
			its := slices.DeleteFunc(slices.Clone(s.its), func(o *object) bool { return w.referenceTo(o).GroupResource != c.to.GroupResource })
			isRight = isRight || n == 0 && !slices.ContainsFunc(its, func(o *object) bool {
				adopter, isAdopted := w.adopted[o.GetUID()]
				isGiven := isAdopted && adopter == s.object.GetUID()
				return o.GetDeletionTimestamp() == nil && !isGiven && (!isNamed || w.isNamed(s.object, o)) // What goes counts as gone.
			})
			for _, o := range its {
				m, ok := numbersOf(o)[c.to.name]
				isRight = isRight || m == n || !ok && n == 0
			}
		}
		if isCopy && !isRight {
			return name, n
		}
	}
	return "", 0
}

// isNamed reports whether a user's object has the name of another one in a field.
func (w *walk) isNamed(o, other *object) bool {
	for _, k := range w.kinds {
		for _, l := range k.leaves {
			if k.Resource == w.registry.ForKind(o.GroupVersionKind().GroupKind()) && k.isName(l) && text(o, l.path...) == other.GetName() {
				return true
			}
		}
	}
	return false
}
