// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// renewDeadline is how long after its last renewal of the Lease an instance may write.
const renewDeadline = 10 * time.Second

// maxRepeated is how often an instance may repeat a request in a second. With a retry delay of 5 ms that doubles, each Foo of the same
// deploymentName has 8.
const maxRepeated = 8 * fooCount

// knowledge is what an instance could know, from the responses and events that it got.
type knowledge struct {
	identity string
	leads    bool
	since    time.Time // since when leads is so
	led      time.Time // when leads was so for the first time
	renewed  time.Time // when the last request that renewed the Lease was sent
	objects  map[string]known
	read     map[string]time.Time // by the name of a Foo, when the last live read of it was sent
	acked    map[string]string    // by target, the resourceVersion in the response to the instance's last write
	open     map[*Request]string  // the requests without a response, and which Foo each is for
	failed   map[string]int       // by the name of a Foo, how many requests for it have failed since its status was written; by "", live reads
	failedAt map[string]time.Time // by the name of a Foo, when the last one has failed
	counts   map[string]int       // of requests and events, for their ids
	again    map[string]time.Time // when the requests were sent that client-go sends again, after Retry-After
}

type known struct {
	object  *object
	since   time.Time
	watched bool // It was an event: the cache has it.
}

// Event implements Observer: it records an event that the instance gets.
func (i *instance) Event(resource string, eventType watch.EventType, o *object) {
	i.walk.lock.Lock()
	defer i.walk.lock.Unlock()
	switch eventType {
	case watch.Added, watch.Modified:
		i.learn(resource, o, true)
	case watch.Deleted:
		delete(i.objects, resource+" "+o.GetName())
	}
}

// learn records an object, unless a newer one is known: a response may be late.
func (i *instance) learn(resource string, o *object, watched bool) {
	if last := i.objects[resource+" "+o.GetName()].object; version(last) < version(o) {
		i.objects[resource+" "+o.GetName()] = known{o, time.Now(), watched}
	}
}

// version returns the resourceVersion of an object that the API server has, and 0 for nil.
func version(o *object) int64 {
	v, _ := strconv.ParseInt(text(o, "metadata", "resourceVersion"), 10, 64)
	return v
}

// responded records a response that the instance gets.
func (i *instance) responded(r *Request, result *object, err error) {
	i.walk.lock.Lock()
	defer i.walk.lock.Unlock()
	foo := i.open[r]
	delete(i.open, r)
	if _, isSentAgain := apierrors.SuggestsClientDelay(err); isSentAgain {
		i.again[r.String()+string(r.Body)] = r.sent
	} else if r.Resource == deployments && r.IsWrite() {
		delete(i.read, foo) // The next write needs a live read of its own.
	}
	_, isAnswer := err.(apierrors.APIStatus)
	isLiveRead := r.Resource == deployments && r.Verb == "get" && !apierrors.IsNotFound(err)
	switch {
	case err == nil && r.Resource == foos && r.IsWrite(): // A sync that has failed writes the status, too, at once or after other requests.
		if r.sent != i.failedAt[foo] && !strings.Contains(string(r.Body), `"reason":"DeploymentFailed"`) {
			delete(i.failed, foo)
		}
	case err != nil && (foo != "" || isLiveRead):
		i.failed[foo]++
		i.failedAt[foo] = time.Now()
		if !isAnswer && r.Resource == foos {
			delete(i.walk.reporter, foo) // The controller does not know what it has written, if anything.
		}
	}
	switch {
	case r.Resource == leases:
		i.observeLease(r, result, err)
	case err != nil || result == nil || r.Verb == "delete":
	case r.Verb == "list":
		for _, item := range result.Object["items"].([]any) {
			i.learn(r.Resource, &object{Object: item.(map[string]any)}, true)
		}
	default:
		i.learn(r.Resource, result, false)
		if r.IsWrite() {
			i.acked[r.target()] = result.GetResourceVersion()
		}
	}
}

// observeLease records what a response for the Lease says, if anything.
func (i *instance) observeLease(r *Request, lease *object, err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return
	}
	leads := err == nil && i.identity != "" && holderOf(lease) == i.identity
	if leads != i.leads {
		i.leads, i.since = leads, time.Now()
	}
	if leads && i.led.IsZero() {
		i.led = time.Now()
	}
	if leads && r.IsWrite() {
		i.renewed = r.sent
	}
}

// sent judges a request when the instance sends it.
func (i *instance) sent(r *Request) {
	w := i.walk
	w.lock.Lock()
	defer w.lock.Unlock()
	from := w.server.computedFrom(r)
	record := *r
	record.Body, record.decoded = nil, nil
	w.requests = append(w.requests, &record)
	isRepeated := func(other *Request) bool {
		return other.Verb == r.Verb && other.target() == r.target() && other.client == r.client
	}
	if repeated := w.sentSince(r.sent.Add(-time.Second), isRepeated); len(repeated) > maxRepeated {
		w.violated("how often", "%s makes %d requests in a second: %s", i.client, len(repeated), r)
	}
	if r.Resource == leases {
		if r.IsWrite() && holderOf(r.object()) != "" {
			i.identity = holderOf(r.object())
		}
		return
	}
	if r.IsWrite() {
		switch now := time.Now(); {
		case !i.leads && i.since.Before(now):
			w.violated("who writes", "%s knows since %s that it does not hold the Lease: %s", i.client, now.Sub(i.since), r)
		case now.Sub(i.renewed) > renewDeadline:
			w.violated("who writes", "%s has renewed the Lease %s ago: %s", i.client, now.Sub(i.renewed), r)
		}
	}
	if before, ok := i.again[r.String()+string(r.Body)]; ok {
		r.sent = before // The controller has not decided anew.
		delete(i.again, r.String()+string(r.Body))
	}
	if r.Name == "" || r.Resource == events || r.Resource == deployments && !r.IsWrite() { // A live read may find that of another Foo.
		return
	}
	if r.Resource == foos && r.Verb == "get" {
		i.read[r.Name] = r.sent
	}
	foo := i.fooOf(r, from)
	for other, its := range i.open {
		if foo != "" && its == foo {
			w.violated("one sync at a time", "%s has two requests for Foo %s under way: %s, and %s", i.client, foo, other, r)
		}
	}
	i.open[r] = foo
}

// computedFrom returns the Deployment that the controller creates or, if it changes one, as it was then, or nil. The lock is held.
func (s *server) computedFrom(r *Request) *object {
	if r.Resource != deployments || !r.IsWrite() {
		return nil
	}
	var from string
	switch r.Verb {
	case "create":
		return r.object()
	case "delete":
		from = ptr.Deref(preconditionsOf(r).ResourceVersion, "")
	default:
		from = r.object().GetResourceVersion()
	}
	resourceVersion, _ := strconv.ParseInt(from, 10, 64)
	return s.at(deployments, resourceVersion)[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
}

// preconditionsOf returns the preconditions of a deletion.
func preconditionsOf(r *Request) metav1.Preconditions {
	var options metav1.DeleteOptions
	if json.Unmarshal(r.Body, &options) != nil || options.Preconditions == nil {
		return metav1.Preconditions{}
	}
	return *options.Preconditions
}

// fooOf returns the name of the Foo that a request is for, as far as the instance could know. from is what it was computed from, if known.
func (i *instance) fooOf(r *Request, from *object) string {
	if r.Resource == foos {
		return r.Name
	}
	o := cmp.Or(from, i.objects[r.target()].object)
	if o == nil || metav1.GetControllerOf(o) == nil || deletesEarlier(r, o) {
		return ""
	}
	return metav1.GetControllerOf(o).Name
}

// deletesEarlier reports whether a request is to delete an earlier object of the name, whose deletion the cache has not seen.
func deletesEarlier(r *Request, o *object) bool {
	return r.Verb == "delete" && ptr.Deref(preconditionsOf(r).UID, o.GetUID()) != o.GetUID()
}

// judgeFailure judges a request of an instance that the API server fails, with the lock held.
func (w *walk) judgeFailure(r *Request, found *object, err error) {
	i := w.instance(r.client)
	isJudged := r.Resource == foos || r.Resource == deployments
	if i == nil || found == nil || !isJudged || deletesEarlier(r, found) || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return
	}
	sameOwner := true // A Foo does not wait for what was written for another one.
	if from := w.server.computedFrom(r); from != nil {
		before, after := metav1.GetControllerOf(found), metav1.GetControllerOf(from)
		sameOwner = before != nil && after != nil && before.UID == after.UID
	}
	if i.acked[r.target()] == found.GetResourceVersion() && sameOwner {
		w.violated("a cache that is older than the last write", "%s acts without its own write of %s, resourceVersion %s: %s: %s",
			i.client, r.target(), found.GetResourceVersion(), r, apierrors.ReasonForError(err))
	}
}

// judgeCommit judges each write of an instance when it is committed, with the lock held.
func (w *walk) judgeCommit(c change) {
	w.changed[c.request.target()] = time.Now()
	if c.request.Resource == deployments {
		if ref := metav1.GetControllerOf(c.new); ref != nil {
			w.hadDeployment[ref.UID] = true
		}
	}
	i := w.instance(c.request.client)
	switch {
	case i == nil, c.request.Resource == events:
		return
	case c.request.Resource == leases:
		for r := range i.open {
			if holderOf(c.new) == "" && holderOf(c.old) == i.identity {
				w.violated("who writes", "%s releases the Lease while a sync still runs: %s", i.client, r)
			}
		}
		return
	}
	if last := i.objects[c.request.target()].object; c.old != nil && (last == nil || last.GetResourceVersion() != c.old.GetResourceVersion()) {
		w.violated("a write from a stale cache", "%s cannot know the %s that it changes: resourceVersion %s: %s",
			i.client, c.request.target(), c.old.GetResourceVersion(), c.request)
	}
	switch c.request.Resource {
	case foos:
		w.reporter[c.request.Name] = i
		w.judgeStatus(i, c)
	case deployments:
		w.judgeDeployment(i, c)
	}
}

// judgeDeployment judges a write of a Deployment.
func (w *walk) judgeDeployment(i *instance, c change) {
	name := c.request.Name
	ref := metav1.GetControllerOf(cmp.Or(c.old, c.new))
	if ref == nil {
		w.violated("what a write finds", "%s changes Deployment %s, which no Foo controls: %s", i.client, name, c.request)
		return
	}
	decided := c.request.sent
	if read, isRead := i.read[ref.Name]; isRead && c.request.Verb != "patch" {
		decided = read // The response to a live read, the last look at the Foo, may have been late.
	}
	if foo := i.objects[foos+" "+ref.Name]; foo.watched && foo.object.GetUID() == ref.UID &&
		foo.object.GetDeletionTimestamp() != nil && foo.since.Before(decided) {
		w.violated("what a write finds", "%s knows that Foo %s is being deleted: %s", i.client, ref.Name, c.request)
	}
	switch {
	case c.old == nil:
		w.judgeCreation(i, c, ref)
	case c.request.Verb == "delete":
		w.judgeDeletion(i, c, ref)
		return
	}
	if c.old != nil && !c.admitted && !equality.Semantic.DeepEqual(others(c.old), others(c.new)) {
		w.violated("what a write changes", "%s changes fields of Deployment %s that it does not set: %s %s",
			i.client, name, c.request, c.request.Body)
	}
}

// judgeCreation judges the creation of a Deployment for a Foo.
func (w *walk) judgeCreation(i *instance, c change, ref *metav1.OwnerReference) {
	known := i.objects[foos+" "+ref.Name]
	foo := known.object
	isFirst := foo == nil || foo.GetUID() != ref.UID || number(foo, "status", "observedGeneration") <= 0 ||
		!known.since.Before(c.request.sent) // After a 429, client-go sends it again a second later.
	current := w.server.objects[foos][types.NamespacedName{Namespace: c.new.GetNamespace(), Name: ref.Name}]
	isGone := current == nil || current.GetUID() != ref.UID
	if isGone && !isFirst && c.request.sent.Sub(i.read[ref.Name]) > convergenceTimeout {
		w.violated("what a write finds", "%s creates another Deployment for Foo %s without a live read: it is gone", i.client, ref.Name)
	}
}

// judgeDeletion judges the deletion of a Deployment with a controller reference.
func (w *walk) judgeDeletion(i *instance, c change, ref *metav1.OwnerReference) {
	foo := w.server.objects[foos][types.NamespacedName{Namespace: c.old.GetNamespace(), Name: ref.Name}]
	if foo == nil || foo.GetUID() != ref.UID {
		return // The garbage collector would delete it, too.
	}
	name := deploymentNameOf(foo)
	current := w.server.objects[deployments][types.NamespacedName{Namespace: foo.GetNamespace(), Name: name}]
	read, isRead := i.read[foo.GetName()]
	if isRead && (w.changed[foos+" "+foo.GetName()].After(read) || w.changed[deployments+" "+name].After(read)) {
		return // It has changed, or was deleted, after the live read.
	}
	if name == c.request.Name {
		w.violated("what a deletion finds", "%s deletes Deployment %s, which Foo %s desires", i.client, name, foo.GetName())
		return
	}
	if current == nil || !metav1.IsControlledBy(current, foo) || !canTakeOver(foo, current) {
		w.violated("what a deletion finds", "%s deletes Deployment %s of Foo %s before Deployment %s can take over",
			i.client, c.request.Name, foo.GetName(), name)
	}
}

// others returns what of a Deployment no Foo sets.
func others(d *object) map[string]any {
	o := d.DeepCopy()
	for _, path := range [][]string{
		{"status"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "managedFields"}, {"spec", "replicas"},
		{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}, {"spec", "template", "spec", "containers"},
	} {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	return o.Object
}

// canTakeOver reports whether all desired replicas are available, of which there are none only if the Foo does not say otherwise.
func canTakeOver(foo, d *object) bool {
	desired, isObserved := number(d, "spec", "replicas"), number(d, "status", "observedGeneration") == d.GetGeneration()
	if d.GetDeletionTimestamp() != nil || desired == 0 {
		return d.GetDeletionTimestamp() == nil && number(foo, "spec", "replicas") == 0
	}
	return isObserved && number(d, "status", "availableReplicas") >= desired
}

// judgeStatus judges a write of a Foo.
func (w *walk) judgeStatus(i *instance, c change) {
	if !isStatus(c) {
		w.violated("what a write changes", "%s changes more of a Foo than its status: %s", i.client, c.request)
	}
	before, after := as[samplev1alpha1.Foo](c.old), as[samplev1alpha1.Foo](c.new)
	if meta.IsStatusConditionTrue(after.Status.Conditions, samplev1alpha1.ConditionReady) && !w.hadDeployment[after.UID] {
		w.violated("what is reported", "%s reports that Foo %s is Ready, which has never had a Deployment", i.client, after.Name)
	}
	for _, condition := range after.Status.Conditions {
		last := meta.FindStatusCondition(before.Status.Conditions, condition.Type)
		changed := last == nil || last.Status != condition.Status
		if !changed && !last.LastTransitionTime.Equal(&condition.LastTransitionTime) ||
			changed && time.Since(condition.LastTransitionTime.Time) > convergenceTimeout {
			w.violated("what is reported", "%s sets lastTransitionTime of condition %s of Foo %s to %s", i.client, condition.Type, after.Name,
				condition.LastTransitionTime)
		}
	}
}

// judgeExit judges the end of a process.
func (w *walk) judgeExit(i *instance, err error) {
	w.lock.Lock()
	stopped := i.stopped || w.over
	calm := w.isTrial || !w.calmSince.IsZero() && time.Since(w.calmSince) > restartTime
	w.lock.Unlock()
	w.tell(i.client, "ends: %v", err)
	if !stopped && err == nil || calm && err != nil {
		w.violated("health", "%s ends with the error %v", i.client, err)
	}
}

// judgeState judges the state of the simulated cluster. delay is how much longer it may take until the Foo is reconciled. Each failure doubles
// the retry delay, from 5 ms to 1000 s, also that of a sync that an event has caused. And a status that another instance has written, or the
// leader without a response, and that the leader got after it had begun to lead, is repaired by the next resync. The first one of a leader
// comes after two periods if its informers were started earlier than its handlers were added. A list delays it by up to another period.
func (w *walk) judgeState() (differs string, delay time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	allFoos := as[samplev1alpha1.FooList](w.server.list(&Request{Resource: foos}))
	allDeployments := as[appsv1.DeploymentList](w.server.list(&Request{Resource: deployments}))
	foo, differs := JudgeState(allFoos.Items, allDeployments.Items)
	for _, i := range w.instances {
		if !i.leads {
			continue
		}
		delay = max(delay, min(1000*time.Second, 5*time.Millisecond<<min(i.failed[foo]+i.failed[""], 20)))
		known, reporter := i.objects[foos+" "+foo], w.reporter[foo]
		if reporter != i && known.object != nil && !known.since.Before(i.led) &&
			number(known.object, "status", "observedGeneration") == known.object.GetGeneration() {
			delay = max(delay, 3*ResyncPeriod)
		}
	}
	return differs, delay
}

// JudgeState returns how the state of a namespace differs from what its Foos desire, and the name of the first such Foo, or nothing.
func JudgeState(foos []samplev1alpha1.Foo, deployments []appsv1.Deployment) (name, differs string) {
	byName, controlled := map[string]*appsv1.Deployment{}, map[types.UID][]string{}
	for _, d := range deployments {
		byName[d.Name] = &d
		if ref := metav1.GetControllerOf(&d); ref != nil {
			controlled[ref.UID] = append(controlled[ref.UID], d.Name)
		}
	}
	for _, foo := range foos {
		if differs := judgeFoo(&foo, byName[foo.Spec.DeploymentName], controlled[foo.UID]); differs != "" {
			return foo.Name, fmt.Sprintf("Foo %s %s; its status is %s", foo.Name, differs, encode(foo.Status))
		}
		delete(controlled, foo.UID)
	}
	for _, names := range controlled {
		return "", fmt.Sprintf("the controller of Deployments %s does not exist", strings.Join(names, ", "))
	}
	return "", ""
}

// judgeFoo returns what of a Foo is not as desired, or nothing. d is the Deployment of the desired name, or nil, and controlled are the
// names of the Deployments that it controls.
func judgeFoo(foo *samplev1alpha1.Foo, d *appsv1.Deployment, controlled []string) string {
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	switch {
	case foo.DeletionTimestamp != nil:
		return "still exists"
	case ready == nil || foo.Status.ObservedGeneration != foo.Generation || ready.ObservedGeneration != foo.Generation:
		return "has no status of its newest generation"
	case d != nil && !metav1.IsControlledBy(d, foo):
		switch {
		case ready.Reason != "ErrResourceExists":
			return "does not report that its name is taken"
		case len(controlled) == 0 && foo.Status.AvailableReplicas > 0:
			return "reports available replicas, and controls no Deployment"
		}
		return ""
	case d == nil:
		return "has no Deployment"
	case len(controlled) != 1:
		return "controls " + strings.Join(controlled, ", ")
	case foo.Spec.Replicas != nil && *d.Spec.Replicas != *foo.Spec.Replicas:
		return fmt.Sprintf("has %d replicas", *d.Spec.Replicas)
	case d.Spec.Template.Spec.Containers[0].Image != "nginx:latest":
		return "has the image " + d.Spec.Template.Spec.Containers[0].Image
	case d.Labels["controller"] != foo.Name:
		return "has a Deployment without labels"
	case ready.Status != metav1.ConditionTrue || foo.Status.AvailableReplicas != d.Status.AvailableReplicas:
		return "has a status that differs from that of its Deployment"
	}
	return ""
}

// steadyState lets time pass, and judges the requests of a kind in that time, except those for the Lease.
func (w *walk) steadyState(because string, duration time.Duration, counts func(r *Request) bool) {
	since := time.Now()
	w.sleep(duration)
	made := w.requested(since, func(r *Request) bool { return r.Resource != leases && counts(r) })
	if len(made) > 0 {
		w.violated("steady state", "%s, and %s makes a request: %s", because, made[0].client, made[0])
	}
	if differs, _ := w.judgeState(); differs != "" {
		w.violated("stability", "%s, and %s", because, differs)
	}
}

// requested returns the requests of a kind since a time.
func (w *walk) requested(since time.Time, counts func(r *Request) bool) []*Request {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.sentSince(since, counts)
}

// sentSince returns the requests of a kind since a time. The lock is held.
func (w *walk) sentSince(since time.Time, counts func(r *Request) bool) (made []*Request) {
	first, _ := slices.BinarySearchFunc(w.requests, since, func(r *Request, since time.Time) int { return r.sent.Compare(since) })
	for _, r := range w.requests[first:] {
		if counts(r) {
			made = append(made, r)
		}
	}
	return made
}

// judgeWork bounds the writes by what has happened.
func (w *walk) judgeWork() {
	for _, resource := range []string{foos, deployments} {
		n := len(w.requested(w.start, func(r *Request) bool { return r.Resource == resource && r.IsWrite() }))
		if limit := 3*w.happened + 30; n > limit {
			w.violated("how often", "%d writes of %s after %d actions and faults", n, resource, w.happened)
		}
	}
}

// as returns an object as the Go type T.
func as[T any](o *object) *T {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		panic(err) // The API server has validated it.
	}
	return into
}

func holderOf(lease *object) string { return text(lease, "spec", "holderIdentity") }
