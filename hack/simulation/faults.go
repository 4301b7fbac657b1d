// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// faultTime is how long a fault of a random walk lasts at most.
const faultTime = 8 * time.Second

// faultActions are what happens to the instances, to their watches, to the API server and to the Lease.
var faultActions = []action{
	{"kill", 2, func(w *walk, s step) string {
		return w.current(s.target).kill()
	}},
	{"terminate", 2, func(w *walk, s step) string {
		return w.current(s.target).terminate()
	}},
	{"staleRestart", 2, staleRestart},
	{"freeze", 1, func(w *walk, s step) string {
		return w.current(s.target).hold(apiserver.AllResources, s.duration(30*time.Second))
	}},
	{"holdWatch", 4, onWatch(func(_ *walk, i *instance, resource schema.GroupResource, s step) string {
		return i.hold(resource, s.duration(faultTime))
	})},
	{"cutWatch", 3, onWatch(func(w *walk, i *instance, resource schema.GroupResource, s step) string {
		return i.cutWatch(resource, s.duration(faultTime))
	})},

	{"outage", 1, outage},
	{"partialOutage", 3, func(w *walk, s step) string { return w.failUse(s, s.duration(20*time.Second)) }},
	{"uninstall", 1, uninstall},
	{"refuse", 2, onTheirs(func(w *walk, s step, ref reference) string { return w.refuse(ref, exceedsQuota, s.duration(faultTime)) })},
	{"noPods", 2, onTheirs(func(w *walk, s step, ref reference) string { return w.refusePods(ref, s.duration(faultTime)) })},
	{"admission", 2, onTheirs(func(w *walk, s step, ref reference) string { return w.rewrite(s, ref, s.duration(faultTime)) })},
	{"undo", 2, onTheirs(func(w *walk, s step, ref reference) string { return w.undoChanges(ref, s.duration(faultTime)) })},
	{"noControllers", 1, func(w *walk, s step) string { return w.stopControllers(s.duration(faultTime)) }},

	{"deleteLease", 1, func(w *walk, _ step) string {
		return w.onLease("deletes", func(lease *object) error { return w.user.Delete(lease, metav1.DeleteOptions{}) })
	}},
	{"handLeaseOver", 1, func(w *walk, _ step) string { return w.handLeaseOver() }},
	{"clearLease", 1, func(w *walk, _ step) string { return w.clearLease() }},
}

func (i *instance) kill() string {
	i.stop(true)
	return "kills " + i.name
}

func (i *instance) terminate() string {
	i.stop(false)
	return "terminates " + i.name
}

// hold delays the watches of a resource or, for all of them, all requests and watches.
func (i *instance) hold(resource schema.GroupResource, duration time.Duration) string {
	i.Hold(resource, duration)
	if resource == apiserver.AllResources {
		return fmt.Sprintf("freezes the network of %s for %s", i.name, duration)
	}
	return fmt.Sprintf("delays the watch of %s of %s by %s", resource.Resource, i.name, duration)
}

// cutWatch ends the watches of a resource for a while. What happens meanwhile, they do not see.
func (i *instance) cutWatch(resource schema.GroupResource, duration time.Duration) string {
	i.CutWatches(resource, duration)
	i.walk.server.Compact()
	return fmt.Sprintf("cuts the watch of %s of %s for %s, then it relists", resource.Resource, i.name, duration)
}

// maxStaleness is how many changes of a resource the caches of an API server have not seen yet at most.
const maxStaleness = 6

// staleRestart kills an instance. The API server to which the next one connects is behind for a while, with all of its caches or with that of
// one resource.
func staleRestart(w *walk, s step) string {
	changes, watched, i := s.argument%maxStaleness, w.watchedResources(), w.current(s.target)
	resource := pick(watched, s.argument, schema.GroupResource.String)
	if resource == nil {
		return ""
	}
	what := resource.Resource
	w.lock.Lock()
	if versions := w.versions[*resource]; changes < len(versions) {
		since := versions[len(versions)-1-changes]
		w.stale = stale{map[schema.GroupResource]int64{*resource: since}, s.duration(faultTime)}
		if s.argument%3 == 0 {
			what = strings.Join(namesOf(watched), ", ")
			for _, other := range watched {
				w.stale.since[other] = since
			}
		}
	}
	w.lock.Unlock()
	i.stop(true)
	return fmt.Sprintf("kills %s: for the first %s, the next instance sees %s as before the last %d changes of %s", i.name, s.duration(faultTime),
		what, changes, resource.Resource)
}

func namesOf(resources []schema.GroupResource) (names []string) {
	for _, r := range resources {
		names = append(names, r.Resource)
	}
	return names
}

// onWatch returns a step about the watch of one resource, or of all.
func onWatch(do func(w *walk, i *instance, resource schema.GroupResource, s step) string) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		i, watched := w.current(s.target), w.watchedResources()
		if s.argument%3 == 0 {
			var what []string
			for _, resource := range watched {
				what = append(what, do(w, i, resource, s))
			}
			return strings.Join(what, "; ")
		}
		if resource := pick(watched, s.argument, schema.GroupResource.String); resource != nil {
			return do(w, i, *resource, s)
		}
		return ""
	}
}

// onLease does something to the Lease, if there is one.
func (w *walk) onLease(verb string, do func(lease *object) error) string {
	for _, lease := range w.server.List(leases, "") {
		if do(lease.DeepCopy()) == nil {
			return verb + " the Lease"
		}
	}
	return ""
}

func (w *walk) handLeaseOver() string {
	return w.onLease("is the new holder of", func(lease *object) error {
		setField(lease, "another-program", "spec", "holderIdentity")
		setField(lease, metav1.NowMicro().Format(metav1.RFC3339Micro), "spec", "renewTime")
		_, err := w.user.Update(lease, "")
		return err
	})
}

func (w *walk) clearLease() string {
	return w.onLease("clears", func(lease *object) error {
		setField(lease, "", "spec", "holderIdentity")
		_, err := w.user.Update(lease, "")
		return err
	})
}

// delayRequests makes requests of the program take longer, from now on.
func (w *walk) delayRequests(delay time.Duration, matches func(r *apiserver.Request) bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.requestFault = func(_ string, r *apiserver.Request) (f fault) {
		if matches(r) {
			f.Delay = delay
		}
		return f
	}
}

// failNext makes the next requests of the program fail that match.
func (w *walk) failNext(n int, err error, matches func(r *apiserver.Request) bool) {
	var lock sync.Mutex
	w.addRule("", forever, rejecting(func(*apiserver.Request) error { return err }, func(r *apiserver.Request) bool {
		lock.Lock()
		defer lock.Unlock()
		if n == 0 || !matches(r) {
			return false
		}
		n--
		return true
	}))
}

// addRule adds a rule about the requests of the program, and returns what it does.
func (w *walk) addRule(what string, duration time.Duration, r apiserver.Rule) string {
	matches := r.Matches
	r.Until, r.Matches = time.Now().Add(duration), func(r *apiserver.Request) bool { return isInstance(r.Client) && matches(r) }
	w.server.AddRule(r)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.faultsChanged = time.Now()
	return during(duration) + what
}

// forever is longer than a walk: calm ends it.
const forever = 1000 * time.Hour

// during tells for how long.
func during(duration time.Duration) string {
	if duration == forever {
		return "from now on, "
	}
	return fmt.Sprintf("for %s, ", duration)
}

func rejecting(err func(r *apiserver.Request) error, matches func(r *apiserver.Request) bool) apiserver.Rule {
	return apiserver.Rule{Matches: matches, Reject: err}
}

func outage(w *walk, s step) string {
	for n := range w.Instances {
		w.current(n).CutWatches(apiserver.AllResources, 0)
	}
	return w.addRule("the API server is down", s.duration(faultTime), rejecting(
		func(*apiserver.Request) error { return apiserver.ErrConnection }, func(*apiserver.Request) bool { return true }))
}

// failUse makes one of the kinds of requests fail that the program makes.
func (w *walk) failUse(s step, duration time.Duration) string {
	w.lock.Lock()
	failing := pick(w.used, s.target, strings.Clone)
	w.lock.Unlock()
	if failing == nil {
		return ""
	}
	use, code := *failing, []int32{http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}[s.argument%3]
	what := fmt.Sprintf("%s fails with %d", use, code)
	return w.addRule(what, duration, rejecting(func(r *apiserver.Request) error {
		if code == http.StatusForbidden {
			return apierrors.NewForbidden(r.Resource, r.Name, errors.New("RBAC does not allow it"))
		}
		return apiserver.StatusError(code, what)
	}, func(r *apiserver.Request) bool { return useOf(r) == use }))
}

// uninstall deletes a CRD, and with it all objects, for a while. While finalizers hold one, no other can be created. Then none is served.
func uninstall(w *walk, s step) string {
	k := w.kinds[s.target%len(w.kinds)]
	if !k.IsCustom {
		return ""
	}
	for _, o := range w.server.List(k.GroupResource(), "") {
		_ = w.user.Delete(o, metav1.DeleteOptions{}) // A finalizer may hold it.
	}
	for n := range w.Instances {
		w.current(n).CutWatches(k.GroupResource(), 0)
	}
	what := fmt.Sprintf("the CRD of %s, and with it all objects, is deleted", k.Kind.Kind)
	return w.addRule(what, s.duration(faultTime), rejecting(func(r *apiserver.Request) error {
		w.lock.Lock()
		defer w.lock.Unlock()
		switch isHeld := len(Cluster{w}.List(k.GroupResource())) > 0; {
		case !isHeld:
			return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, r.Resource, "", "", 0, true)
		case r.Verb == "create":
			return apierrors.NewMethodNotSupported(r.Resource, r.Verb)
		}
		return nil
	}, func(r *apiserver.Request) bool { return r.Resource == k.GroupResource() }))
}

func exceedsQuota(r *apiserver.Request) error {
	return apierrors.NewForbidden(r.Resource, r.Name, errors.New("exceeded quota"))
}

// refuse makes writes of an object fail.
func (w *walk) refuse(ref reference, err func(r *apiserver.Request) error, duration time.Duration) string {
	return w.addRule(fmt.Sprintf("a quota rejects writes of %s", ref), duration, rejecting(err, func(r *apiserver.Request) bool {
		return r.IsWrite() && r.Resource == ref.GroupResource && r.Name == ref.Name && r.Subresource == ""
	}))
}

// refusePods makes new Pods of a workload fail. What has no Pods is left alone.
func (w *walk) refusePods(ref reference, duration time.Duration) string {
	if !w.server.HasPods(ref.GroupResource) {
		return ""
	}
	w.server.AddRule(apiserver.Rule{
		Until: time.Now().Add(duration), Reject: exceedsQuota,
		Matches: func(r *apiserver.Request) bool {
			return !isInstance(r.Client) && r.Verb == "create" && r.Resource == pods && r.Key() == ref.NamespacedName
		},
	})
	return during(duration) + "a quota rejects new Pods of " + ref.String()
}

// stopControllers stops the garbage collector, and the controllers of workloads.
func (w *walk) stopControllers(duration time.Duration) string {
	w.server.AddRule(apiserver.Rule{
		Until:   time.Now().Add(duration),
		Matches: func(r *apiserver.Request) bool { return r.IsWrite() && r.Client != user && !isInstance(r.Client) },
		Reject:  func(*apiserver.Request) error { return apiserver.ErrConnection },
	})
	return during(duration) + "kube-controller-manager does not run"
}

// rewrite makes admission change an object of the program: its labels, an annotation, or a field that the program sets.
func (w *walk) rewrite(s step, ref reference, duration time.Duration) string {
	mutations := []struct {
		what   string
		mutate func(o *object)
	}{
		{"strips the labels of", func(o *object) { o.SetLabels(nil) }},
		{"annotates", func(o *object) { annotate(o, 0) }},
		{"rewrites a text of", w.rewriteText},
	}
	m := mutations[s.argument%len(mutations)]
	return w.addRule(fmt.Sprintf("admission %s %s", m.what, ref), duration, apiserver.Rule{
		Matches: func(r *apiserver.Request) bool {
			return r.IsWrite() && r.Resource == ref.GroupResource && r.Name == ref.Name && r.Subresource == ""
		},
		Admit: func(_ *apiserver.Request, o *object) error { m.mutate(o); return nil },
	})
}

// rewriteText changes the image of each container, as a registry mirror does. It is the only text that admission is known to change.
func (w *walk) rewriteText(o *object) {
	for _, f := range fieldsOf(o) {
		if text, ok := f.value.(string); ok && strings.HasSuffix(f.name, "].image") && !strings.HasPrefix(text, "mirror/") {
			f.set("mirror/" + text)
		}
	}
}

// undoChanges makes another client undo what the program changes of an object, for some time.
func (w *walk) undoChanges(ref reference, duration time.Duration) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.undone[ref], w.faultsChanged = &undoing{until: time.Now().Add(duration)}, time.Now()
	return during(duration) + "another client undoes each change of " + ref.String()
}

// undoing is another client that undoes what the program changes of an object.
type undoing struct {
	until time.Time
	times int // how often it has
}

// delay is how long the client waits. It slows down after a while: otherwise a walk with a program that need not keep Pace would not end.
func (u *undoing) delay() time.Duration {
	if u.times > 2*maxPace {
		return time.Minute
	}
	return 20 * time.Millisecond
}

// undo undoes a change, if that is due. The lock is held.
func (w *walk) undo(c *apiserver.Change) {
	ref := w.referenceTo(c.New)
	if !w.isUndone(c) {
		return
	}
	u := w.undone[ref]
	u.times++
	time.AfterFunc(u.delay(), func() {
		w.lock.Lock()
		isOver := w.undone[ref] != u
		w.lock.Unlock()
		if isOver {
			return
		}
		w.tell(user, w.change(ref, func(o *object) string {
			if o.GetUID() != c.New.GetUID() || !equality.Semantic.DeepEqual(content(o), content(c.New)) {
				return "" // It is not there any more.
			}
			for key, value := range content(c.Old.DeepCopy()) {
				o.Object[key] = value
			}
			return "undoes that:"
		}))
	})
}

// isUndone reports whether another client undoes a change. The lock is held.
func (w *walk) isUndone(c *apiserver.Change) bool {
	u := w.undone[w.referenceTo(c.New)]
	return u != nil && u.until.After(time.Now()) && isInstance(c.Request.Client) && c.Type == watch.Modified &&
		!equality.Semantic.DeepEqual(content(c.Old), content(c.New))
}

// content is an object without its metadata and its status.
func content(o *object) map[string]any {
	c := map[string]any{}
	for key, value := range o.Object {
		if key != "metadata" && key != "status" {
			c[key] = value
		}
	}
	return c
}
