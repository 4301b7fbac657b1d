// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// collectDelay is how long the garbage collector takes to notice a change.
const collectDelay = 200 * time.Millisecond

// graph is what the garbage collector knows of all objects.
type graph struct {
	server     *Server
	objects    map[types.UID]*Object
	dependents map[types.UID]int
	blocking   map[types.UID]int // dependents that block the deletion of the owner
}

// collect does what the garbage collector has to do.
func (b *builtInControllers) collect() {
	b.server.lock.Lock()
	b.collecting = false
	b.server.lock.Unlock()
	all := slices.DeleteFunc(b.server.All(), func(o *Object) bool { return o.GetKind() == "Event" }) // Nobody owns them.
	g := &graph{b.server, map[types.UID]*Object{}, map[types.UID]int{}, map[types.UID]int{}}
	for _, o := range all {
		g.objects[o.GetUID()] = o
		for _, ref := range o.GetOwnerReferences() {
			g.dependents[ref.UID]++
			if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
				g.blocking[ref.UID]++
			}
		}
	}
	failed := false
	for _, o := range all {
		failed = g.collect(o) != nil || failed
	}
	b.collectAgain(failed)
}

// collectAgain collects again after a while what has failed, as other built-in controllers do.
func (b *builtInControllers) collectAgain(failed bool) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.collectRetry != nil {
		b.collectRetry.Stop()
	}
	if !failed {
		b.collectRetryDelay = 0
		return
	}
	b.collectRetryDelay = retryAfter(b.collectRetryDelay)
	b.collectRetry = time.AfterFunc(b.collectRetryDelay, b.collect)
}

// collect does what the garbage collector has to do about an object, if anything.
func (g *graph) collect(o *Object) error {
	client := g.server.Client(string(GarbageCollector))
	if o.GetDeletionTimestamp() != nil {
		finalizers := slices.DeleteFunc(o.GetFinalizers(), func(finalizer string) bool {
			return finalizer == metav1.FinalizerDeleteDependents && g.blocking[o.GetUID()] == 0 ||
				finalizer == metav1.FinalizerOrphanDependents && g.dependents[o.GetUID()] == 0
		})
		if len(finalizers) < len(o.GetFinalizers()) {
			released := o.DeepCopy()
			released.SetFinalizers(finalizers)
			_, err := client.Update(released, "")
			return err
		}
	}
	kept, absent, deleting := g.owners(o)
	switch {
	case len(kept) > 0 && len(kept) < len(o.GetOwnerReferences()), len(kept)+absent+deleting == 0 && len(o.GetOwnerReferences()) > 0:
		changed := o.DeepCopy()
		changed.SetOwnerReferences(kept)
		_, err := client.Update(changed, "")
		return err
	case len(kept) == 0 && absent+deleting > 0 && o.GetDeletionTimestamp() == nil:
		options := metav1.DeleteOptions{
			Preconditions:     metav1.NewUIDPreconditions(string(o.GetUID())),
			PropagationPolicy: new(metav1.DeletePropagationBackground),
		}
		if deleting > 0 && g.hasDependents(o) { // Its owner waits for its dependents, too.
			options.PropagationPolicy = new(metav1.DeletePropagationForeground)
		}
		return client.Delete(o, options)
	}
	return nil
}

// hasDependents reports whether an object owns others. Workloads do: there are none only in the simulation.
func (g *graph) hasDependents(o *Object) bool {
	return g.dependents[o.GetUID()] > 0 || slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"}, o.GetKind())
}

// owners returns the owner references of an object that keep it, and how many are to owners that are absent or are deleted in the
// foreground. The other ones are to owners that orphan it.
func (g *graph) owners(o *Object) (kept []metav1.OwnerReference, absent, deleting int) {
	for _, ref := range o.GetOwnerReferences() {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		resource, owner := g.server.ForKind(kind), g.objects[ref.UID]
		isOwner := owner != nil && owner.GetName() == ref.Name && owner.GroupVersionKind().GroupKind() == kind &&
			(owner.GetNamespace() == "" || owner.GetNamespace() == o.GetNamespace())
		switch {
		case resource == nil, resource.Namespaced && o.GetNamespace() == "": // It cannot know whether there is one.
			kept = append(kept, ref)
		case !isOwner:
			absent++
		case owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
			deleting++
		case owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents):
		default:
			kept = append(kept, ref)
		}
	}
	return kept, absent, deleting
}
