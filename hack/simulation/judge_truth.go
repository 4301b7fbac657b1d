// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// momentTime is how often a status is looked at, and truthTime how long it may say what is not so: an event may lag, and a write be paced.
	momentTime, truthTime = 10 * time.Second, 2 * time.Minute
)

// claims are the conditions that, by convention, say that what an object is about serves.
var claims = []string{"Ready", "Available"}

// refusal is a write of the program that was refused, and that it did not make since. Nobody else has changed anything since, either.
type refusal struct {
	at   time.Time
	what string
}

// truthJudge judges Truth every few seconds. What no program can know, or report, is excused.
func truthJudge(w *walk) judge {
	since := map[string]time.Time{} // since when each falsehood is told
	served := map[types.UID]int64{} // which generation of an object has controlled something
	return judge{moment: func() {
		told := w.falsehoods(served)
		for what := range since {
			if _, ok := told[what]; !ok {
				delete(since, what)
			}
		}
		for what, detail := range told {
			if _, ok := since[what]; !ok {
				since[what] = time.Now()
			}
			if duration := time.Since(since[what]); duration > max(truthTime, w.electionTime()) {
				w.violated(Truth, "for %s, %s %s", duration, what, detail)
			}
		}
	}}
}

// falsehoods returns what the users' objects say that is not so, with details. The lock is held.
func (w *walk) falsehoods(served map[types.UID]int64) map[string]string {
	told := map[string]string{}
	if w.hides() {
		return told
	}
	controlled := w.controlled()
	for ref, o := range w.objects {
		if !w.isUsers(ref.GroupResource) || o.GetDeletionTimestamp() != nil || w.isLate(ref) {
			continue
		}
		its := controlled[o.GetUID()]
		if len(its) > 0 {
			served[o.GetUID()] = o.GetGeneration()
		}
		claim := claimOf(o)
		if claim == "" {
			continue
		}
		what := fmt.Sprintf("%s %s says %s, and ", o.GetKind(), o.GetName(), claim)
		refused, isRefused := w.refused[ref.String()]
		switch {
		case len(its) == 0 && served[o.GetUID()] == o.GetGeneration():
			told[what+"what it controlled is gone"] = ""
		case isRefused && time.Since(refused.at) > truthTime:
			told[what+"a write for it was refused"] = time.Since(refused.at).String() + " ago: " + refused.what
		case len(its) > 0 && !slices.ContainsFunc(its, serves):
			told[what+"nothing that it controls has its replicas"] = ""
		}
	}
	return told
}

// claimOf returns which condition of an object says of its newest generation that it serves, or nothing.
func claimOf(o *object) string {
	if g, ok := observedGeneration(o); ok && g != o.GetGeneration() {
		return ""
	}
	for _, name := range claims {
		condition := conditionsOf(o)[name]
		if g, ok := generation(condition["observedGeneration"]); condition["status"] == "True" && (!ok || g == o.GetGeneration()) {
			return name
		}
	}
	return ""
}

// serves reports whether an object has all its replicas, of its newest generation. One without replicas does. What a ReplicaSet has does not
// depend on its generation: a new template is for new Pods only.
func serves(o *object) bool {
	desired, ok := value(o, "spec", "replicas").(int64)
	if observed, has := observedGeneration(o); has && observed < o.GetGeneration() && o.GetKind() != "ReplicaSet" {
		return false
	}
	return !ok || number(o, "status", "availableReplicas") >= desired || number(o, "status", "readyReplicas") >= desired
}

// recordResponse remembers which writes are refused, and which for ever. The lock is held.
func (i *instance) recordResponse(r *request, err error) {
	w := i.walk
	if !r.IsWrite() || !isWork(r.Resource) || r.Subresource != "" {
		return
	}
	if err == nil || apierrors.IsInvalid(err) || isDenied(err) {
		w.rejected[r.about] = err != nil
	}
	switch status, isStatus := err.(apierrors.APIStatus); {
	case err == nil:
		delete(w.refused, r.about)
	case i.isOutdated(r):
	case isStatus && (isDenied(err) || !slices.Contains([]int32{http.StatusConflict, http.StatusNotFound, http.StatusTooManyRequests}, status.Status().Code)):
		w.refused[r.about] = refusal{time.Now(), fmt.Sprintf("%s: %v", r, err)}
	}
}

// isDenied reports whether an admission webhook has denied a write, with any code.
func isDenied(err error) bool { return strings.HasPrefix(err.Error(), "admission webhook ") }

// isOutdated reports whether a write would have failed if it had not been refused, or is for an older spec. The lock is held.
func (i *instance) isOutdated(r *request) bool { return i.isForOlderSpec(r) || i.walk.isInVain(r) }

// isInVain reports whether a write fails in any case: it creates what exists, or changes what is gone or has changed. The lock is held.
func (w *walk) isInVain(r *request) bool {
	found := w.objects[r.ref]
	switch {
	case r.Verb == "create":
		return found != nil
	case found == nil:
		return true
	case r.Verb == "delete":
		var options metav1.DeleteOptions
		if json.Unmarshal(r.Body, &options) != nil || options.Preconditions == nil {
			return false
		}
		uid, version := options.Preconditions.UID, options.Preconditions.ResourceVersion
		return uid != nil && *uid != found.GetUID() || version != nil && *version != found.GetResourceVersion()
	}
	return r.body != nil && !slices.Contains([]string{"", found.GetResourceVersion()}, r.body.GetResourceVersion())
}

// isForOlderSpec reports whether the instance may not have known the users' object that a request of it is about, or its newest spec, when it
// decided to send the request. The lock is held.
func (i *instance) isForOlderSpec(r *request) bool {
	for ref, o := range i.walk.objects {
		if ref.String() == r.about {
			k := i.objects[ref]
			isKnown := k.before(r) || k.spec.Before(r.decided)
			return !isKnown || k.uid() != o.GetUID() || k.object.GetGeneration() != o.GetGeneration()
		}
	}
	return false
}
