// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// faultKinds are what happens to the instances of the controller, to their watches, to the API server and to the Lease.
var faultKinds = []kind{
	{"kill", 2, func(w *walk, s step) string {
		i := w.current(s.target)
		i.stop(true)
		return "kills " + i.client
	}},
	{"terminate", 2, func(w *walk, s step) string {
		i := w.current(s.target)
		i.stop(false)
		return "terminates " + i.client
	}},
	{"staleRestart", 1, func(w *walk, s step) string {
		w.lock.Lock()
		w.staleness = map[string]int64{foos: int64(s.argument % 30), deployments: int64(s.argument % 30)}
		w.lock.Unlock()
		i := w.current(s.target)
		i.stop(true)
		return fmt.Sprintf("kills %s: the lists of the next instance are %d changes old", i.client, s.argument%30)
	}},
	{"freeze", 1, func(w *walk, s step) string {
		i, duration := w.current(s.target), s.duration(30*time.Second)
		i.HoldWatch(all, duration)
		return fmt.Sprintf("freezes the network of %s for %s", i.client, duration)
	}},
	{"hold", 4, onWatches(func(w *walk, i *instance, resource string, s step) string {
		i.HoldWatch(resource, s.duration(8*time.Second))
		return fmt.Sprintf("delays the watch of %s of %s by %s", resource, i.client, s.duration(8*time.Second))
	})},
	{"cut", 3, onWatches(func(w *walk, i *instance, resource string, s step) string {
		i.CutWatch(resource, s.duration(8*time.Second))
		w.server.expireWatches()
		return fmt.Sprintf("cuts the watch of %s of %s for %s, then it relists", resource, i.client, s.duration(8*time.Second))
	})},

	{"outage", 1, func(w *walk, s step) string {
		for n := range w.instances {
			w.current(n).CutWatch(all, 0)
		}
		return w.addRule("the API server is down", s.duration(8*time.Second), rule{
			matches: func(r *Request) bool { return isInstance(r.client) },
			reject:  func(*Request) error { return errConnection },
		})
	}},
	{"partialOutage", 3, func(w *walk, s step) string {
		failing := strings.Fields([]string{
			"create deployments", "patch deployments", "delete deployments", "get deployments",
			"update foos status", "get foos", "create events", "update leases", "get leases",
		}[s.target%9])
		code := []int32{403, 500, 503}[s.argument%3]
		what := fmt.Sprintf("%s fails with %d", strings.Join(failing, " "), code)
		return w.addRule(what, s.duration(20*time.Second), rule{
			matches: func(r *Request) bool {
				return isInstance(r.client) && r.Verb == failing[0] && r.Resource == failing[1] && (r.Subresource != "") == (len(failing) > 2)
			},
			reject: func(r *Request) error {
				if code == 403 {
					return apierrors.NewForbidden(r.GroupResource(), r.Name, errors.New("RBAC does not allow it"))
				}
				return statusError(code, what)
			},
		})
	}},
	{"uninstall", 1, func(w *walk, s step) string {
		for _, foo := range w.server.snapshot(foos) {
			_ = w.server.write(user, "delete", foos, foo, metav1.DeleteOptions{}) // One that is gone is no error.
		}
		for n := range w.instances {
			w.current(n).CutWatch(foos, 0)
		}
		return w.addRule("the CRD, and with it all Foos, is deleted", s.duration(8*time.Second), rule{
			matches: func(r *Request) bool { return r.Resource == foos },
			reject: func(r *Request) error {
				return apierrors.NewGenericServerResponse(404, r.Verb, r.GroupResource(), "", "", 0, true)
			},
		})
	}},
	{"reject", 2, func(w *walk, s step) string {
		name := deploymentName(s.target)
		return w.addRule("a quota rejects writes of Deployment "+name, s.duration(8*time.Second), rule{
			matches: func(r *Request) bool { return isInstance(r.client) && writesDeployments(r) && r.Name == name },
			reject:  exceedsQuota,
		})
	}},
	{"quota", 2, func(w *walk, s step) string {
		name := deploymentName(s.target)
		return w.addRule("a quota rejects new Pods of Deployment "+name, s.duration(8*time.Second), rule{
			matches: func(r *Request) bool { return r.Resource == "pods" && r.Name == name },
			reject:  exceedsQuota,
		})
	}},
	{"admission", 2, func(w *walk, s step) string {
		name := deploymentName(s.target)
		mutation := mutations[s.argument%len(mutations)]
		return w.addRule(fmt.Sprintf("admission %s of Deployment %s", mutation.what, name), s.duration(8*time.Second), rule{
			matches: func(r *Request) bool { return isInstance(r.client) && writesDeployments(r) && r.Name == name },
			admit:   mutation.mutate,
		})
	}},
	{"undo", 2, func(w *walk, s step) string {
		name := deploymentName(s.target)
		w.undoChanges(name, s.duration(8*time.Second))
		return fmt.Sprintf("for %s, another client undoes each change of the replicas of Deployment %s", s.duration(8*time.Second), name)
	}},

	{"deleteLease", 1, onLease("deletes", func(w *walk, lease *object) error {
		return w.server.write(user, "delete", leases, lease, metav1.DeleteOptions{})
	})},
	{"handLeaseOver", 1, onLease("is the new holder of", func(w *walk, lease *object) error {
		set(lease, "another-program", "spec", "holderIdentity")
		set(lease, metav1.NowMicro().Format(metav1.RFC3339Micro), "spec", "renewTime")
		return w.server.write(user, "update", leases, lease, lease)
	})},
	{"clearLease", 1, onLease("clears", func(w *walk, lease *object) error {
		set(lease, "", "spec", "holderIdentity")
		return w.server.write(user, "update", leases, lease, lease)
	})},
}

var mutations = []struct {
	what   string
	mutate func(o *object)
}{
	{"rewrites the image", func(o *object) { setImage(o, "mirror/nginx") }},
	{"strips the labels", func(o *object) { o.SetLabels(nil) }},
	{"adds an annotation", func(o *object) { o.SetAnnotations(map[string]string{"admitted": "true"}) }},
}

func onWatches(do func(w *walk, i *instance, resource string, s step) string) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		i := w.current(s.target)
		switch s.argument % 3 {
		case 0:
			return do(w, i, foos, s)
		case 1:
			return do(w, i, deployments, s)
		}
		return do(w, i, foos, s) + "; " + do(w, i, deployments, s)
	}
}

func onLease(verb string, do func(w *walk, lease *object) error) func(w *walk, s step) string {
	return func(w *walk, s step) string {
		for _, lease := range w.server.snapshot(leases) {
			if do(w, lease.DeepCopy()) == nil {
				return verb + " the Lease"
			}
		}
		return ""
	}
}

// addRule adds a rule that expires after a time.
func (w *walk) addRule(what string, duration time.Duration, r rule) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	r.until = time.Now().Add(duration)
	w.server.rules = append(slices.DeleteFunc(w.server.rules, func(r rule) bool { return r.until.Before(time.Now()) }), r)
	return fmt.Sprintf("for %s, %s", duration, what)
}

// expireWatches makes watches that begin from now on at an older resourceVersion fail with 410 Gone.
func (s *server) expireWatches() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.compacted = s.resourceVersion
}

func writesDeployments(r *Request) bool { return r.Resource == deployments && r.IsWrite() }

func exceedsQuota(r *Request) error {
	return apierrors.NewForbidden(r.GroupResource(), r.Name, errors.New("exceeded quota"))
}

func isInstance(client string) bool { return strings.HasPrefix(client, "instance-") }
