// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// knowledge is what an instance could know, from the responses and events that it got. The lock of the walk guards it.
type knowledge struct {
	identity string
	leads    bool
	since    time.Time     // since when leads is so
	renewed  time.Time     // when the last request that renewed the Lease was sent
	valid    time.Duration // how long after that others respect the Lease
	objects  map[reference]known
	byUID    map[types.UID]reference
	absent   map[types.UID]time.Time // since when it knows that an object is gone: there may be another one of its name
	acked    map[reference]string    // the resourceVersion in the response to the instance's last write
	deleted  map[types.UID]time.Time // when the response came that says that the instance has deleted it
	failures map[series]failures
	again    map[string]time.Time // when the requests were sent that client-go sends again, after Retry-After or, if they read, a broken connection
	answered map[string]answer    // the last response, by what it was about
	open     map[*apiserver.Request]*request
	initial  map[*apiserver.Request]map[types.UID]bool // what the initial events of a watch have shown, until they end
	counts   map[string]int                            // of requests and events, for their ids
	caughtUp map[schema.GroupResource]time.Time        // when the first list or watch of each resource had caught up; zero before
	waiting  cacheWait
}

// known is an object that an instance has seen.
type known struct {
	object *object
	since  time.Time
	spec   time.Time // since when it has known the spec, of this generation
	gone   bool      // It was seen to be gone.
	isRead bool      // It is what a read was answered with.
	seen   time.Time // when a watch, or a list, has shown it; zero if none has
	// notFound says that a read has not found it since. Others than who sent that may not use it.
	notFound bool
}

// answer is when a response came, and what the walk knew of the request: see request.
type answer struct{ at, decided, due time.Time }

// before reports whether an instance certainly knew something when it decided to send a request. What it has read for that, it knew.
func (k known) before(r *request) bool {
	return !k.notFound && (k.since.Before(r.decided) || k.isRead && !k.since.After(r.Sent))
}

func (k known) uid() types.UID {
	if k.object == nil {
		return ""
	}
	return k.object.GetUID()
}

// series are the requests that a program repeats until one succeeds.
type series struct{ use, about string }

func (r *request) series() series { return series{useOf(r.Request), r.about} }

// failures are those of a series of requests, writes that were in vain included, and the first one after those that was not.
type failures struct {
	n           int
	first, last time.Time
	anyVain     bool
}

func (f failures) and(isVain bool) failures {
	now := time.Now()
	if f.n == 0 {
		f.first = now
	}
	return failures{f.n + 1, f.first, now, isVain}
}

const (
	// retryDelay is the first one of client-go's and controller-runtime's rate limiters. It doubles, up to maxRetryDelay.
	retryDelay, maxRetryDelay = 5 * time.Millisecond, 1000 * time.Second
)

// until returns until when a program may wait for the next try. A delay that doubles is about as long as all before together.
func (f failures) until() time.Time {
	if f.n == 0 {
		return time.Time{}
	}
	return f.last.Add(min(maxRetryDelay, max(retryDelay<<min(f.n, 20), f.last.Sub(f.first))))
}

func newKnowledge() knowledge {
	return knowledge{
		since: time.Now(), objects: map[reference]known{}, byUID: map[types.UID]reference{}, absent: map[types.UID]time.Time{}, acked: map[reference]string{},
		deleted: map[types.UID]time.Time{}, failures: map[series]failures{}, again: map[string]time.Time{}, answered: map[string]answer{},
		open: map[*apiserver.Request]*request{}, initial: map[*apiserver.Request]map[types.UID]bool{}, counts: map[string]int{},
		caughtUp: map[schema.GroupResource]time.Time{},
	}
}

// request is a request of an instance, with what the walk knows of it.
type request struct {
	*apiserver.Request
	ref     reference
	body    *object   // nil if it has no object
	about   string    // the users' object that it is about, as far as the instance could know
	decided time.Time // when the program decided to send it: before it sent those of which it used the responses
	due     time.Time // until when the program may have waited before: see failures
	isVain  bool      // It is a write that has changed nothing, or what admission or another client has changed or undone.
}

// newRequest returns what is known of a request. The lock is held.
func (i *instance) newRequest(r *apiserver.Request) *request {
	q := &request{Request: r, ref: reference{r.Resource, r.Key()}, decided: r.Sent, isVain: r.IsWrite()}
	hasObject := r.Verb == "create" || r.Verb == "update" || r.Verb == "patch" && r.PatchType != types.JSONPatchType
	if hasObject && (r.Resource != leases || i.identity == "") {
		q.body, _ = r.Object() // The API server refuses what is none.
	}
	if !isWork(r.Resource) {
		return q
	}
	if before, ok := i.again[i.sameAgain(r)]; ok {
		q.decided = before // The program has not decided anew.
		delete(i.again, i.sameAgain(r))
	}
	o := i.objects[q.ref].object
	if r.Verb == "create" {
		o = q.body
	}
	q.about = i.walk.aboutObject(q.ref, o)
	if i.waiting.at(r.Sent) && i.waiting.since.Before(q.decided) {
		q.decided = i.waiting.since
	}
	for about, last := range i.answered {
		// What the response was about is what this one is sent for: what belongs to nobody was read for it, and others may have taken its object
		// away meanwhile.
		isFor := about == q.about || !i.walk.isAboutUsers(about) || q.about == q.ref.String() && !i.walk.isUsers(r.Resource)
		if last.at.Equal(r.Sent) && isFor {
			if last.decided.Before(q.decided) {
				q.decided = last.decided
			}
			if last.due.After(q.due) {
				q.due = last.due
			}
		}
	}
	for of, f := range i.failures {
		pauses := f.anyVain && of == q.series()
		if until := f.until(); of.about == q.about && until.After(q.due) && !i.walk.hasNews(q, pauses, f.last.Add(reactionTime)) {
			q.due = until
		}
	}
	return q
}

// isAboutUsers reports whether a request is about an object of a kind that users create.
func (w *walk) isAboutUsers(about string) bool {
	return slices.ContainsFunc(w.kinds, func(k *userKind) bool { return strings.HasPrefix(about, k.Resource.Resource+" ") })
}

const (
	// pollTime is how often a program looks whether its cache has caught up, and patience how long it may wait for that.
	pollTime, patience = 100 * time.Millisecond, 2 * time.Minute
)

// cacheWait is the wait of a program, in the middle of a sync, for caches that it fills only when it first reads them, as controller-runtime does.
// What it writes then was decided before.
type cacheWait struct {
	since, until time.Time
	resources    map[schema.GroupResource]bool // of the caches that have not caught up
}

// at reports whether the program may wait at a time, or have waited until just then.
func (w cacheWait) at(t time.Time) bool {
	return (len(w.resources) > 0 || t.Before(w.until)) && t.Sub(w.since) < patience
}

// opens notes that the instance begins to fill a cache. If others have caught up before, it may be in the middle of a sync: those of the beginning
// are opened together. The lock is held.
func (i *instance) opens(resource schema.GroupResource) {
	if _, ok := i.caughtUp[resource]; ok {
		return
	}
	now, w := time.Now(), &i.waiting
	i.caughtUp[resource] = time.Time{}
	for _, at := range i.caughtUp {
		if at.IsZero() || at.Equal(now) {
			continue
		}
		if !w.at(now) {
			*w = cacheWait{since: now, resources: map[schema.GroupResource]bool{}}
		}
		w.resources[resource] = true
		return
	}
}

// catchesUp notes that a cache of the instance has all objects of a resource. The lock is held.
func (i *instance) catchesUp(resource schema.GroupResource) {
	if at, ok := i.caughtUp[resource]; !ok || !at.IsZero() {
		return
	}
	i.caughtUp[resource] = time.Now()
	if i.waiting.resources[resource] {
		delete(i.waiting.resources, resource)
		i.waiting.until = time.Now().Add(pollTime + 1) // It may be seen at the last moment.
	}
}

// reactionTime is how long others take to react to a write: to undo it, or to roll it out.
const reactionTime = 2 * time.Second

// hasNews reports whether something has happened since a time for which a program has to try a request again that has failed: there is a new
// spec, the object that it is about is gone, or others have changed what the request is about. What others do to its other objects, or to one
// that is to be deleted, is no reason, nor is it for a program that pauses because others have undone what it wrote. The lock is held.
func (w *walk) hasNews(r *request, pauses bool, since time.Time) bool {
	return w.specAt[r.about].After(since) || !pauses && r.Verb != "delete" && w.news[r.ref.String()].After(since)
}

func (i *instance) sameAgain(r *apiserver.Request) string { return r.String() + string(r.Body) }

// withoutBody returns what is kept of a request.
func (r *request) withoutBody() *request {
	inner := *r.Request
	inner.Body = nil
	return &request{Request: &inner, ref: r.ref, about: r.about, decided: r.decided, due: r.due}
}

// source is where an instance has got an object from: a write or a read of its own, or a list or an event for its cache.
type source int

const (
	written source = iota
	read
	watched
)

// learn records an object, unless a newer one is known: a response may be late. The lock is held.
func (i *instance) learn(resource schema.GroupResource, o *object, from source) {
	ref := reference{resource, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
	k := i.objects[ref]
	switch last := k.object; {
	case version(last) == version(o) && !k.gone:
		k.isRead = k.isRead || from == read
		if from == watched && k.seen.IsZero() {
			k.seen = time.Now()
		}
		i.objects[ref] = k
	case version(last) < version(o):
		if last != nil && last.GetUID() != o.GetUID() {
			i.isAbsent(last.GetUID())
		}
		spec := time.Now()
		if last != nil && last.GetUID() == o.GetUID() && o.GetGeneration() > 0 && last.GetGeneration() == o.GetGeneration() {
			spec = k.spec
		}
		k = known{object: o, since: time.Now(), spec: spec, isRead: from == read}
		if from == watched {
			k.seen = k.since
		}
		i.objects[ref] = k
		i.byUID[o.GetUID()] = ref
	}
}

// version returns the resourceVersion of an object that the API server has, and 0 for nil.
func version(o *object) int64 {
	v, _ := strconv.ParseInt(text(o, "metadata", "resourceVersion"), 10, 64)
	return v
}

// knowsGone returns since when an instance knows that the object of a UID is gone or being deleted. The lock is held.
func (i *instance) knowsGone(uid types.UID) (k known, isGone bool) {
	k = i.objects[i.byUID[uid]]
	if since, isAbsent := i.absent[uid]; isAbsent {
		return known{since: since}, true
	}
	return k, k.object != nil && k.object.GetUID() == uid && k.object.GetDeletionTimestamp() != nil
}

// isAbsent notes that an instance knows that an object is gone. The lock is held.
func (i *instance) isAbsent(uid types.UID) {
	if _, ok := i.absent[uid]; !ok {
		i.absent[uid] = time.Now()
	}
}

// learnResponse records a response that the instance gets. The lock is held.
func (i *instance) learnResponse(r *request, result *object, err error) {
	if !errors.Is(err, context.Canceled) {
		delete(i.open, r.Request) // What was cancelled may still be applied.
	}
	if r.Resource == leases {
		i.observeLease(r, result, err)
	}
	if !isWork(r.Resource) {
		return
	}
	i.answered[r.about] = answer{time.Now(), r.decided, r.due}
	if _, isDelayed := apierrors.SuggestsClientDelay(err); isDelayed || !r.IsWrite() && errors.Is(err, apiserver.ErrConnection) {
		i.again[i.sameAgain(r.Request)] = r.decided
	}
	switch {
	case r.Verb == "watch" || r.IsDryRun():
		return
	case err == nil && !r.isVain && !i.failures[r.series()].anyVain:
		delete(i.failures, r.series())
	case r.Verb != "list":
		i.failures[r.series()] = i.failures[r.series()].and(r.isVain)
	}
	if i.walk.answers[r.String()] = ""; err != nil {
		i.walk.answers[r.String()] = err.Error()
	}
	switch {
	case err == nil && r.Verb == "delete":
		if uid := text(result, "details", "uid"); uid != "" { // There is none if a finalizer holds it.
			i.deleted[types.UID(uid)] = time.Now()
		}
	case r.Verb == "get" && apierrors.IsNotFound(err):
		if k, ok := i.objects[r.ref]; ok && !k.gone {
			k.notFound = true
			i.objects[r.ref] = k
		}
	case err != nil || result == nil || r.Verb == "deletecollection" || r.Subresource == "scale":
	case r.Verb == "list":
		i.catchesUp(r.Resource)
		i.learnList(r, result)
	case r.Verb == "get":
		i.learn(r.Resource, result, read)
	default:
		i.learn(r.Resource, result, written)
		i.acked[r.ref] = result.GetResourceVersion()
	}
}

// learnList records a list, and that what it does not have is gone. The lock is held.
func (i *instance) learnList(r *request, list *object) {
	items, _ := list.Object["items"].([]any)
	listed := map[types.UID]bool{}
	for _, item := range items {
		o := &object{Object: item.(map[string]any)} // It may have no kind.
		listed[o.GetUID()] = true
		i.learn(r.Resource, o, watched)
	}
	if text(list, "metadata", "continue") == "" && r.Query.Get("continue") == "" {
		i.learnRest(r.Request, listed, version(list))
	}
}

// learnRest records that what a list or the initial events of a watch do not have is gone, unless they are older. The lock is held.
func (i *instance) learnRest(r *apiserver.Request, listed map[types.UID]bool, at int64) {
	selects := r.Query.Get("labelSelector")+r.Query.Get("fieldSelector") != ""
	for ref, k := range i.objects {
		isOf := ref.GroupResource == r.Resource && (r.Namespace == "" || r.Namespace == ref.Namespace)
		if selects || !isOf || k.gone || listed[k.uid()] || version(k.object) > at {
			continue
		}
		i.isAbsent(k.uid())
		i.objects[ref] = known{object: k.object, since: time.Now(), gone: true}
	}
}

// learnEvent records an event that the instance gets. The lock is held.
func (i *instance) learnEvent(r *apiserver.Request, event watch.EventType, o *object) {
	switch event {
	case watch.Bookmark:
		i.catchesUp(r.Resource)
		if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
			i.learnRest(r, i.initial[r], version(o))
			delete(i.initial, r)
		}
	case watch.Added, watch.Modified:
		i.learn(r.Resource, o, watched)
		if listed := i.initial[r]; listed != nil {
			listed[o.GetUID()] = true
		}
	case watch.Deleted:
		ref := i.walk.referenceTo(o)
		i.isAbsent(o.GetUID())
		i.objects[ref], i.byUID[o.GetUID()] = known{object: o, since: time.Now(), gone: true}, ref
	}
}

// observeLease records what a response for the Lease says, if anything. The lock is held.
func (i *instance) observeLease(r *request, lease *object, err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return
	}
	leads := err == nil && i.identity != "" && holderOf(lease) == i.identity
	if leads != i.leads {
		i.leads, i.since = leads, time.Now()
	}
	if leads && r.IsWrite() {
		i.renewed, i.valid = r.Sent, time.Duration(number(lease, "spec", "leaseDurationSeconds"))*time.Second
	}
}

func holderOf(lease *object) string { return text(lease, "spec", "holderIdentity") }
