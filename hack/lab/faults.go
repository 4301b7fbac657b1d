// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// injector injects faults into the next writes, and delays requests.
type injector struct {
	lock  sync.Mutex
	next  []injection
	delay time.Duration // of each request
}

// injection is a fault of the next write.
type injection struct {
	name  string
	fault faults.Fault
}

func (i *injector) add(count int, injected injection) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for range count {
		i.next = append(i.next, injected)
	}
}

func (i *injector) setDelay(delay time.Duration) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.delay = delay
}

// reset ends all faults.
func (i *injector) reset() {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.next, i.delay = nil, 0
}

// handle is a faults.Fault.
func (i *injector) handle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	i.lock.Lock()
	delay, injected := i.delay, injection{fault: passOn}
	if r.Method != http.MethodGet && len(i.next) > 0 {
		injected, i.next = i.next[0], i.next[1:]
	}
	i.lock.Unlock()
	if response, ok := w.(*responseWriter); ok {
		response.fault = injected.name
	}
	if delay > 0 {
		sleep(r.Context(), delay)
	}
	injected.fault(w, r, next)
}

func passOn(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }

// sleep returns after a duration, or when ctx is done.
func sleep(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}

var (
	laneField     = field{Name: "lane", Label: "of", Default: deployments, Options: []string{foos, deployments}}
	instanceField = field{Name: "pod", Default: "a", Options: []string{"a", "b"}}
)

// watchFaults are the faults of watches that last.
var watchFaults = []string{"cutWatch/" + foos, "cutWatch/" + deployments, "holdWatch/" + foos, "holdWatch/" + deployments}

// proxyOnly says that no command does the same.
const proxyOnly = "(in the proxy)"

// faultActions are the faults, and what ends them.
var faultActions = []action{
	{
		Name: "cutWatch", Label: "Cut a watch", Command: proxyOnly, Fields: []field{laneField},
		do: func(_ context.Context, l *lab, v values) error {
			return l.eachInstance(func(i *instance) { i.proxy.InterruptWatches(v["lane"]) }, "cutWatch/"+v["lane"])
		},
	},
	{
		Name: "healWatch", Label: "Heal the watches", Command: proxyOnly,
		Fields: []field{{Name: "relist", Default: "yes", Options: []string{"yes", "no"}}},
		do: func(_ context.Context, l *lab, v values) error {
			l.removeLasting(watchFaults...)
			return l.eachInstance(func(i *instance) { i.proxy.ResumeWatches(v["relist"] == "yes") })
		},
	},
	{
		Name: "holdWatch", Label: "Hold a watch's events", Command: proxyOnly, Fields: []field{laneField},
		do: func(_ context.Context, l *lab, v values) error {
			return l.eachInstance(func(i *instance) { i.proxy.HoldWatches(v["lane"]) }, "holdWatch/"+v["lane"])
		},
	},
	{
		Name: "releaseWatch", Label: "Release them", Command: proxyOnly,
		do: func(_ context.Context, l *lab, _ values) error {
			l.removeLasting(watchFaults...)
			return l.eachInstance(func(i *instance) { i.proxy.ReleaseWatches() })
		},
	},
	{
		Name: "failWrite", Label: "Fail the next writes", Command: proxyOnly,
		Fields: []field{{Name: "count", Default: "1", Type: "number", Min: 1, Max: 10}, {Name: "code", Default: "500", Options: []string{"500", "409", "429"}}},
		do: func(_ context.Context, l *lab, v values) error {
			reason := map[string]metav1.StatusReason{"500": metav1.StatusReasonInternalError, "409": metav1.StatusReasonConflict,
				"429": metav1.StatusReasonTooManyRequests}[v["code"]]
			l.injector.add(v.number("count"), injection{"failWrite", faults.RejectWithMessage(v.number("code"), reason, "injected by the lab")})
			return nil
		},
	},
	{
		Name: "delayWrite", Label: "Delay the next write", Command: proxyOnly,
		Fields: []field{{Name: "seconds", Default: "3", Type: "number", Min: 1, Max: 60}},
		do: func(_ context.Context, l *lab, v values) error {
			delay := time.Duration(v.number("seconds")) * time.Second
			l.injector.add(1, injection{"delayWrite", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				sleep(r.Context(), delay)
				next.ServeHTTP(w, r)
			}})
			return nil
		},
	},
	{
		Name: "loseResponse", Label: "Lose the next write's response", Command: proxyOnly,
		do: func(_ context.Context, l *lab, _ values) error {
			l.injector.add(1, injection{"loseResponse", faults.DropResponse})
			return nil
		},
	},
	{
		Name: "slow", Label: "Slow API server", Command: proxyOnly,
		Fields: []field{{Name: "milliseconds", Default: "500", Type: "number", Max: 5000}},
		do: func(_ context.Context, l *lab, v values) error {
			l.injector.setDelay(time.Duration(v.number("milliseconds")) * time.Millisecond)
			l.removeLasting("slow")
			if v.number("milliseconds") > 0 {
				l.addLasting("slow")
			}
			return nil
		},
	},
	{
		Name: "kill", Label: "Kill the controller", Command: "kill -KILL {pid}", Fields: []field{instanceField},
		do: func(_ context.Context, l *lab, v values) error { return l.withInstance(v["pod"], l.kill) },
	},
	{
		Name: "freeze", Label: "Freeze it", Command: "kill -STOP {pid}", Fields: []field{instanceField},
		do: func(_ context.Context, l *lab, v values) error { return l.withInstance(v["pod"], l.freeze) },
	},
	{
		Name: "thaw", Label: "Thaw it", Command: "kill -CONT {pid}", Fields: []field{instanceField},
		do: func(_ context.Context, l *lab, v values) error { return l.withInstance(v["pod"], l.thaw) },
	},
	{
		Name: "restart", Label: "Restart it", Command: "kill -KILL {pid}; sample-controller …", Fields: []field{instanceField},
		do: func(_ context.Context, l *lab, v values) error {
			return l.withInstance(v["pod"], func(i *instance) error {
				if err := l.kill(i); err != nil {
					return err
				}
				return l.start(i)
			})
		},
	},
	{
		Name: "replicas", Label: "Run replicas", Command: "kubectl scale -n sample-controller deployment/sample-controller --replicas={count}",
		Fields: []field{{Name: "count", Default: "2", Options: []string{"1", "2"}}},
		do: func(_ context.Context, l *lab, v values) error {
			l.stopInstances()
			l.removeLasting(watchFaults...)
			return l.startInstances(v.number("count"))
		},
	},
	{
		Name: "killLeader", Label: "Kill the leader", Command: "kill -KILL {pid}",
		do: func(_ context.Context, l *lab, _ values) error {
			pid := l.pid("")
			leader := slices.IndexFunc(l.instances, func(i *instance) bool { return i.process.Pid == pid })
			if leader < 0 {
				return fmt.Errorf("%w: there is no leader", errInvalid)
			}
			return l.kill(l.instances[leader])
		},
	},
	{
		Name: "revoke", Label: "Revoke a permission", Command: "kubectl edit clusterrole/" + user,
		Fields: []field{{Name: "verb", Default: "create", Options: []string{"create", "patch", "delete"}}},
		do: func(ctx context.Context, l *lab, v values) error {
			var rules []rbacv1.PolicyRule
			for _, rule := range l.rules {
				if slices.Contains(rule.Resources, deployments) {
					rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return verb == v["verb"] })
				}
				rules = append(rules, rule)
			}
			l.addLasting("revoke")
			return l.setRules(ctx, rules)
		},
	},
	{
		Name: "grant", Label: "Grant it again", Command: "kubectl edit clusterrole/" + user,
		do: func(ctx context.Context, l *lab, _ values) error {
			l.removeLasting("revoke")
			return l.setRules(ctx, l.rules)
		},
	},
}

func (l *lab) setRules(ctx context.Context, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	_, err := l.kubeClient.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	return err
}

// eachInstance does something to all instances, and remembers the faults that last.
func (l *lab) eachInstance(do func(*instance), lasting ...string) error {
	for _, i := range l.instances {
		do(i)
	}
	l.addLasting(lasting...)
	return nil
}

func (l *lab) withInstance(name string, do func(*instance) error) error {
	n := slices.IndexFunc(l.instances, func(i *instance) bool { return i.name == name })
	if n < 0 {
		return fmt.Errorf("%w: there is no instance %s", errInvalid, name)
	}
	return do(l.instances[n])
}

// addLasting and removeLasting keep the faults that last.
func (l *lab) addLasting(lasting ...string) {
	l.change(func() {
		for _, name := range lasting {
			l.lasting[name] = true
		}
	})
}

func (l *lab) removeLasting(lasting ...string) {
	l.change(func() {
		for _, name := range lasting {
			delete(l.lasting, name)
		}
	})
}
