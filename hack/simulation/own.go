// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// Own is a promise that only the program under test makes. Its functions return what is not as promised. They must not change anything.
type Own struct {
	Name Promise
	// Write judges a write of the program when it was committed. It may be nil.
	Write func(w Write) error
	// Moment judges the cluster every few seconds. It may be nil. Within is how long it may return the same error, if no election takes longer.
	Moment func(c Cluster) error
	Within time.Duration
	// End judges the cluster when all is reconciled. It may be nil.
	End func(c Cluster) error
}

// Cluster is what the API server has at a moment. Objects must not be changed.
type Cluster struct{ walk *walk }

// Get returns an object, or nil if there is none.
func (c Cluster) Get(resource schema.GroupResource, namespace, name string) *apiserver.Object {
	return c.walk.objects[reference{resource, types.NamespacedName{Namespace: namespace, Name: name}}]
}

// List returns the objects of a resource, sorted by their namespaces and names.
func (c Cluster) List(resource schema.GroupResource) (list []*apiserver.Object) {
	return c.filter(func(ref reference, _ *object) bool { return ref.GroupResource == resource })
}

// ControlledBy returns the objects whose controller is an object.
func (c Cluster) ControlledBy(owner *apiserver.Object) []*apiserver.Object {
	return c.filter(func(_ reference, o *object) bool { return metav1.IsControlledBy(o, owner) })
}

func (c Cluster) filter(is func(ref reference, o *object) bool) (list []*object) {
	for ref, o := range c.walk.objects {
		if is(ref, o) {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return list
}

// Write is a write of the program. Old is nil after a creation, and New is the last state after a deletion.
type Write struct {
	Cluster
	*apiserver.Change
	by   *instance
	sent *request
}

// Seen returns an object as a watch has shown it to the program, or nil. It is certain if it had done so when the program decided to write, and
// no response shows a newer state: others than who got it may not use that.
func (w Write) Seen(resource schema.GroupResource, namespace, name string) (o *apiserver.Object, isCertain bool) {
	k := w.by.objects[reference{resource, types.NamespacedName{Namespace: namespace, Name: name}}]
	if k.gone {
		return nil, k.before(w.sent)
	}
	return k.object, !k.notFound && !k.seen.IsZero() && k.seen.Before(w.sent.decided)
}

// Known returns an object as the program could know it, or nil. What it has deleted itself it knows to be gone. It is certain if the program
// knew it when it decided to write.
func (w Write) Known(resource schema.GroupResource, namespace, name string) (o *apiserver.Object, isCertain bool) {
	k := w.by.objects[reference{resource, types.NamespacedName{Namespace: namespace, Name: name}}]
	if k.gone {
		return nil, k.before(w.sent)
	}
	if at, isDeleted := w.by.deleted[k.uid()]; isDeleted {
		// A request that is sent at the moment of a response uses that.
		return nil, at.Before(w.sent.decided) || at.Equal(w.sent.Sent) && at.Equal(w.by.answered[w.sent.about].at)
	}
	return k.object, k.before(w.sent)
}

// Read returns an object as a live read has shown it just before the write, or nil.
func (w Write) Read(resource schema.GroupResource, namespace, name string) *apiserver.Object {
	k := w.by.objects[reference{resource, types.NamespacedName{Namespace: namespace, Name: name}}]
	if !k.isRead || !k.since.Equal(w.sent.Sent) {
		return nil
	}
	return k.object
}

// ownJudge judges the program's own promises.
func ownJudge(w *walk) judge {
	type falsehood struct {
		promise Promise
		what    string
	}
	since := map[falsehood]time.Time{}
	return judge{
		committed: func(i *instance, c *apiserver.Change) {
			for _, own := range w.Own {
				r := i.open[c.Request]
				if own.Write == nil || r == nil || !isWork(c.Request.Resource) {
					continue
				}
				if err := own.Write(Write{Cluster{w}, c, i, r}); err != nil {
					w.violated(own.Name, "%s: %s: %v", i.name, c.Request, err)
				}
			}
		},
		moment: func() {
			last := since
			since = map[falsehood]time.Time{}
			for _, own := range w.Own {
				if own.Moment == nil || w.hides() || time.Now().Before(w.lateUntil()) {
					continue
				}
				err := own.Moment(Cluster{w})
				if err == nil {
					continue
				}
				told := falsehood{own.Name, err.Error()}
				since[told] = time.Now()
				if at, ok := last[told]; ok {
					since[told] = at
				}
				if duration := time.Since(since[told]); duration > max(own.Within, w.electionTime()) {
					w.violated(own.Name, "for %s, %v", duration, err)
				}
			}
		},
	}
}

// judgeOwnEnd judges the end of the program's own promises. The lock is held.
func (w *walk) judgeOwnEnd() {
	for _, own := range w.Own {
		if own.End == nil {
			continue
		}
		if err := own.End(Cluster{w}); err != nil {
			w.violated(own.Name, "%v", err)
		}
	}
}
