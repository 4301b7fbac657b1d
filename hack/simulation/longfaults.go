// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// longFaults are those that last for hours. What users see meanwhile is judged, as far as the program can report.
var longFaults = []action{
	{"webhookDown", 0, func(w *walk, s step) string {
		return w.failWrites(s, "a webhook does not answer", func(*apiserver.Request) error {
			return apiserver.StatusError(http.StatusInternalServerError, "failed calling webhook")
		})
	}},
	{"policy", 0, func(w *walk, s step) string {
		return w.failWrites(s, "a policy refuses", func(r *apiserver.Request) error {
			return apierrors.NewForbidden(r.Resource, r.Name, errors.New("denied by a policy"))
		})
	}},
	{"denied", 0, func(w *walk, s step) string { // A webhook chooses the code.
		code := []int32{http.StatusUnprocessableEntity, http.StatusConflict, http.StatusNotFound}[s.argument%3]
		return w.failWrites(s, fmt.Sprintf("a webhook denies with %d", code), func(*apiserver.Request) error {
			return apiserver.StatusError(code, `admission webhook "policy.example.com" denied the request`)
		})
	}},
	{"rewrite", 0, onTheirs(func(w *walk, s step, ref reference) string { return w.rewrite(s, ref, forever) })},
	{"noPods", 0, onTheirs(func(w *walk, _ step, ref reference) string { return w.refusePods(ref, forever) })},
	{"undo", 0, onTheirs(func(w *walk, _ step, ref reference) string { return w.undoChanges(ref, forever) })},
	{"noControllers", 0, func(w *walk, _ step) string { return w.stopControllers(forever) }},
	{"verb", 0, func(w *walk, s step) string {
		w.setHidden(true)
		return w.failUse(s, forever)
	}},
	{"status", 0, func(w *walk, s step) string {
		w.setHidden(true)
		code := []int32{http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError}[s.argument%3]
		what := fmt.Sprintf("no status can be written: %d", code)
		return w.addRule(what, forever, rejecting(func(r *apiserver.Request) error { return apiserver.StatusError(code, what) }, w.writesStatus))
	}},
}

// writesStatus reports whether a request writes the status of a user's object.
func (w *walk) writesStatus(r *apiserver.Request) bool {
	return w.isUsers(r.Resource) && r.Subresource == "status" && r.IsWrite()
}

// setHidden notes whether a fault keeps the program from knowing, or from reporting, what is so.
func (w *walk) setHidden(hidden bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.isHidden = hidden
}

// hides reports whether something keeps the program from knowing, or from reporting, what is so. The lock is held.
func (w *walk) hides() bool {
	return w.isHidden || w.heldAtStart > 0 || time.Now().Before(w.hiddenUntil)
}

// failWrites makes one kind of the writes of the program fail that are not about its users' objects.
func (w *walk) failWrites(s step, what string, err func(r *apiserver.Request) error) string {
	w.lock.Lock()
	writes := slices.DeleteFunc(slices.Clone(w.used), func(use string) bool {
		verb, resource, _ := strings.Cut(use, " ")
		isTheirs := func(k *userKind) bool { return strings.HasPrefix(resource, k.GroupResource().String()) }
		return !(&apiserver.Request{Verb: verb}).IsWrite() || strings.HasPrefix(resource, leases.String()) ||
			strings.HasPrefix(resource, "events") || slices.ContainsFunc(w.kinds, isTheirs)
	})
	w.lock.Unlock()
	use := pick(writes, s.target, strings.Clone)
	if use == nil {
		return ""
	}
	return w.addRule(what+": "+*use, forever, rejecting(err, func(r *apiserver.Request) bool { return useOf(r) == *use }))
}

// longFault lets a fault last for hours, while users go on, and ends it.
func (w *walk) longFault() {
	if w.script.long == nil {
		return
	}
	w.sleep(w.orElection(convergenceTimeout)) // What the other faults have caused is over.
	w.take(*w.script.long)
	w.setLong(true)
	since := time.Now()
	for _, s := range w.script.meanwhile {
		w.sleep(s.after)
		w.take(s)
	}
	w.sleep(longTime - time.Since(since))
	w.setLong(false)
	w.calm()
}

// setLong notes whether a fault lasts for hours.
func (w *walk) setLong(long bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.isLong = long
}
