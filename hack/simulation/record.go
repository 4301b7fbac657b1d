// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func isEvent(resource schema.GroupResource) bool { return resource.Resource == "events" }

// isWork reports whether a request for a resource is for what the program does: not for its Lease, nor for an event.
func isWork(resource schema.GroupResource) bool { return resource != leases && !isEvent(resource) }

// record is what is known of a walk so far. The lock of the walk guards it.
type record struct {
	objects      map[reference]*object            // what the API server has, but for Leases and events
	version      int64                            // the newest resourceVersion
	versions     map[schema.GroupResource][]int64 // those of the changes of a resource, but for the program's own of users' objects
	changedAt    map[string][]time.Time           // when others than the program have changed something, by what it is about
	news         map[string]time.Time             // when the last of these was that a program has to react to
	specAt       map[string]time.Time             // since when the API server has the newest generation of an object, or has it no more
	created      map[types.UID]*object            // by the program, as they were then
	users        map[types.UID]bool               // the users' objects, past ones too
	controlledAt map[string]*object               // what had a controller, by its resourceVersion
	adopted      map[types.UID]types.UID          // of which objects users have made which of their own the controller
	requests     []*request                       // of the program, in order, for what it does, without bodies
	answers      map[string]string                // the error of the last response to a write, or "", by the write as stories tell it
	watched      []schema.GroupResource           // what the program watches, sorted
	used         []string                         // the kinds of its requests, sorted
	set          map[fieldOf]bool                 // the fields that the program has set in a creation or a patch
	initial      map[fieldOf]bool                 // the fields that were there when the program had created an object
	finalizer    map[string]bool                  // those that the program adds
	rejected     map[string]bool                  // what the last write about it was rejected for: it is tried again as long as that is so
	refused      map[string]refusal
	observations map[types.UID][]observation // of the users' objects, for judgeCopies
	elects       bool                        // The program has written a Lease.
}

// fieldOf is a field of the objects of a resource.
type fieldOf struct {
	schema.GroupResource
	name string
}

func newRecord() record {
	return record{
		objects: map[reference]*object{}, versions: map[schema.GroupResource][]int64{}, changedAt: map[string][]time.Time{}, news: map[string]time.Time{},
		specAt: map[string]time.Time{}, created: map[types.UID]*object{}, users: map[types.UID]bool{}, controlledAt: map[string]*object{}, adopted: map[types.UID]types.UID{},
		set: map[fieldOf]bool{}, initial: map[fieldOf]bool{},
		answers: map[string]string{}, finalizer: map[string]bool{}, rejected: map[string]bool{}, refused: map[string]refusal{},
		observations: map[types.UID][]observation{},
	}
}

// isUsers reports whether a resource is one that users create.
func (all *tester) isUsers(resource schema.GroupResource) bool {
	return slices.ContainsFunc(all.kinds, func(k *userKind) bool { return k.GroupResource() == resource })
}

// isUsersOwn reports whether an object is of a kind that users create, and the program has not created it. The lock is held.
func (w *walk) isUsersOwn(o *object) bool {
	return w.isUsers(w.referenceTo(o).GroupResource) && w.created[o.GetUID()] == nil
}

func (w *walk) hasCreated(uid types.UID) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.created[uid] != nil
}

func (w *walk) isSet(resource schema.GroupResource, name string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.set[fieldOf{resource, name}]
}

// watchedResources returns what the program watches, but for Leases.
func (w *walk) watchedResources() []schema.GroupResource {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(w.watched), func(r schema.GroupResource) bool { return r == leases })
}

// recordCommit remembers a write that was committed. The lock is held.
func (w *walk) recordCommit(c *apiserver.Change) {
	r := c.Request
	w.version = c.ResourceVersion
	if !isWork(r.Resource) {
		return
	}
	if !isInstance(r.Client) || !w.isUsers(r.Resource) { // What the program reports of a users' object makes less of a difference.
		w.versions[r.Resource] = append(w.versions[r.Resource], c.ResourceVersion)
	}
	ref := w.referenceTo(c.New)
	w.objects[ref] = c.New
	if metav1.GetControllerOfNoCopy(c.New) != nil {
		w.controlledAt[c.New.GetResourceVersion()] = c.New
	}
	if c.Old == nil || c.Type == watch.Deleted || c.Old.GetGeneration() != c.New.GetGeneration() {
		w.specAt[ref.String()] = time.Now()
	}
	if c.Type == watch.Deleted {
		delete(w.objects, ref)
	}
	if w.isUsers(r.Resource) {
		w.users[c.New.GetUID()] = true
	}
	if !isInstance(r.Client) {
		w.recordNews(ref, c)
		return
	}
	switch {
	case c.Old == nil:
		w.created[c.New.GetUID()] = c.New
		w.recordSet(r)
		for _, f := range fieldsOf(c.New) {
			w.initial[fieldOf{r.Resource, f.name}] = true
		}
	case c.Type == watch.Modified && r.Subresource == "" && r.Verb != "delete":
		w.recordChange(c)
	}
}

// recordNews remembers what others than the program have changed: by what it is and was about and, since others may want its name, by where
// it is. The lock is held.
func (w *walk) recordNews(ref reference, c *apiserver.Change) {
	abouts := []string{w.aboutObject(ref, c.New), ref.String()}
	if was := w.aboutObject(ref, c.Old); !slices.Contains(abouts, was) {
		abouts = append(abouts, was)
	}
	for _, about := range slices.Compact(abouts) {
		w.changedAt[about] = append(w.changedAt[about], time.Now())
		if !w.isUsers(ref.GroupResource) || c.Type != watch.Modified || c.Old.GetGeneration() != c.New.GetGeneration() {
			w.news[about] = time.Now()
		}
		delete(w.refused, about)
	}
}

// recordSet remembers the fields in the body of a request. The lock is held.
func (w *walk) recordSet(r *apiserver.Request) {
	body, err := r.Object()
	if err != nil {
		return // It is a JSON patch.
	}
	for _, f := range fieldsOf(body) {
		w.set[fieldOf{r.Resource, f.name}] = true
	}
	w.recordFinalizers(body, nil)
}

func (w *walk) recordFinalizers(o, before *object) {
	for _, finalizer := range o.GetFinalizers() {
		if before == nil || !slices.Contains(before.GetFinalizers(), finalizer) {
			w.finalizer[finalizer] = true
		}
	}
}

// recordChange remembers which fields a write of the program has set. What admission changes is not the program's. The lock is held.
func (w *walk) recordChange(c *apiserver.Change) {
	r := c.Request
	if r.Verb == "patch" && r.PatchType != types.JSONPatchType {
		w.recordSet(r)
	}
	w.recordFinalizers(c.New, c.Old)
	if c.Admitted {
		return
	}
	before := valuesOf(c.Old)
	for _, f := range fieldsOf(c.New) {
		name := fieldOf{r.Resource, f.name}
		if v, ok := before[f.name]; !ok || v != f.text() && w.initial[name] {
			w.set[name] = true
		}
	}
}

// aboutObject returns what an object is about: the users' object that controls it, or itself.
func (w *walk) aboutObject(ref reference, o *object) string {
	if w.isUsers(ref.GroupResource) || o == nil {
		return ref.String()
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		if r := w.resourceOf(owner); r != nil {
			return r.Resource + " " + owner.Name
		}
	}
	return ref.String()
}

// resourceOf returns the resource of an owner, or nil if it is not simulated.
func (w *walk) resourceOf(owner *metav1.OwnerReference) *apiserver.Resource {
	gv, _ := schema.ParseGroupVersion(owner.APIVersion) // The API server has validated it, or refuses it.
	return w.server.ForKind(gv.WithKind(owner.Kind).GroupKind())
}

// useOf is the kind of a request.
func useOf(r *apiserver.Request) string {
	return strings.TrimSpace(r.Verb + " " + r.Resource.String() + " " + r.Subresource)
}

// insert adds a value to a sorted list that does not have it.
func insert[T any](list []T, v T, compare func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, v, compare)
	if found {
		return list
	}
	return slices.Insert(list, i, v)
}

// requested returns the requests of the program since a time that count.
func (w *walk) requested(since time.Time, counts func(r *request) bool) []*request {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.sentSince(since, counts)
}

// sentSince is requested, with the lock held.
func (w *walk) sentSince(since time.Time, counts func(r *request) bool) (made []*request) {
	first, _ := slices.BinarySearchFunc(w.requests, since, func(r *request, since time.Time) int { return r.Sent.Compare(since) })
	for _, r := range w.requests[first:] {
		if counts(r) {
			made = append(made, r)
		}
	}
	return made
}

// mostFrequent tells which write has been made most often since a time, and how the last one has ended. The lock is held.
func (w *walk) mostFrequent(since time.Time, counts func(r *request) bool) string {
	times, most := map[string]int{}, ""
	for _, r := range w.sentSince(since, func(r *request) bool { return r.IsWrite() && counts(r) }) {
		write := r.String()
		if times[write]++; most == "" || times[write] > times[most] {
			most = write
		}
	}
	return fmt.Sprintf("%d times %s; the last one: %s", times[most], most, cmp.Or(w.answers[most], "stored"))
}

// isUnknown reports whether a field is the one that the API server adds to each spec.
func isUnknown(name string) bool { return strings.HasSuffix(name, "."+apiserver.UnknownField) }
