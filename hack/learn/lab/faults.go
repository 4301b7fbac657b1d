// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// injection is a fault of the next write, of any resource if none is given.
type injection struct {
	name, resource string
	fault          apiserver.Fault
}

// faultOf returns what happens to a request of an instance, and the name of the fault if one was injected.
func (l *Lab) faultOf(r *apiserver.Request) (name string, f apiserver.Fault) {
	lane := laneOf(r.Resource)
	if lane == "" {
		return "", f
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if lane == deployments && r.Verb == l.revoked {
		return "", apiserver.Fault{Err: apierrors.NewForbidden(r.Resource, r.Name, fmt.Errorf(
			"%s %q cannot %s resource %q in API group %q in the namespace %q", "User", "sample-controller", r.Verb, r.Resource, "apps", r.Namespace))}
	}
	next := slices.IndexFunc(l.injections, func(i injection) bool { return i.resource == "" || i.resource == lane })
	if r.IsWrite() && next >= 0 {
		name, f = l.injections[next].name, l.injections[next].fault
		l.injections = slices.Delete(l.injections, next, next+1)
	}
	f.Delay += l.delay
	return name, f
}

// inject injects a fault into the next writes.
func (l *Lab) inject(count int, i injection) error {
	l.change(func() { l.injections = append(l.injections, slices.Repeat([]injection{i}, count)...) })
	return nil
}

var (
	laneField     = field{Name: "lane", Label: "of", Default: deployments, Options: []string{foos, deployments}}
	instanceField = field{Name: "pod", Default: "a", Options: []string{"a", "b"}}
)

// The faults of watches, which last. They are remembered with the lane.
const (
	cutWatch  = "cutWatch"
	holdWatch = "holdWatch"
)

// forever is longer than anybody looks at the lab.
const forever = 1000 * time.Hour

// applyWatchFault applies a fault that is remembered to a connection.
func applyWatchFault(c *apiserver.Connection, fault string) {
	switch name, lane, _ := strings.Cut(fault, "/"); name {
	case cutWatch:
		c.CutWatches(resources[lane], forever)
	case holdWatch:
		c.Hold(resources[lane], forever)
	}
}

const (
	// inAPIServer and inBrowser say where a fault happens: no command of kubectl does the same.
	inAPIServer = "(in the API server)"
	inBrowser   = "(in the browser: the process is a Web Worker)"
)

// faultActions are the faults, and what ends them.
var faultActions = []action{
	{
		Name: cutWatch, Label: "Cut a watch", Command: inAPIServer, Fields: []field{laneField},
		do: func(l *Lab, v values) error { return l.injectWatchFault(cutWatch + "/" + v["lane"]) },
	},
	{
		Name: "healWatch", Label: "Heal the watches", Command: inAPIServer,
		Fields: []field{{Name: "relist", Default: "yes", Options: []string{"yes", "no"}}},
		do: func(l *Lab, v values) error {
			if v["relist"] == "yes" {
				l.cluster.Compact()
			}
			l.healWatches()
			return nil
		},
	},
	{
		Name: holdWatch, Label: "Hold a watch's events", Command: inAPIServer, Fields: []field{laneField},
		do: func(l *Lab, v values) error { return l.injectWatchFault(holdWatch + "/" + v["lane"]) },
	},
	{
		Name: "releaseWatch", Label: "Release them", Command: inAPIServer,
		do: func(l *Lab, _ values) error { l.healWatches(); return nil },
	},
	{
		Name: "failWrite", Label: "Fail the next writes", Command: inAPIServer,
		Fields: []field{{Name: "count", Default: "1", Type: "number", Min: 1, Max: 10}, laneField, {Name: "code", Default: "500", Options: []string{"500", "409", "429"}}},
		do: func(l *Lab, v values) error {
			err := apiserver.StatusError(int32(v.number("code")), "injected by the lab")
			return l.inject(v.number("count"), injection{"failWrite", v["lane"], apiserver.Fault{Err: err}})
		},
	},
	{
		Name: "delayWrite", Label: "Delay the next write", Command: inAPIServer,
		Fields: []field{{Name: "seconds", Default: "3", Type: "number", Min: 1, Max: 60}},
		do: func(l *Lab, v values) error {
			return l.inject(1, injection{name: "delayWrite", fault: apiserver.Fault{Delay: time.Duration(v.number("seconds")) * time.Second}})
		},
	},
	{
		Name: "loseResponse", Label: "Lose the next write's response", Command: inAPIServer,
		do: func(l *Lab, _ values) error {
			return l.inject(1, injection{name: "loseResponse", fault: apiserver.Fault{Lost: true}})
		},
	},
	{
		Name: "slow", Label: "Slow API server", Command: inAPIServer,
		Fields: []field{{Name: "milliseconds", Default: "500", Type: "number", Max: 5000}},
		do: func(l *Lab, v values) error {
			l.change(func() { l.delay = time.Duration(v.number("milliseconds")) * time.Millisecond })
			return nil
		},
	},
	{
		Name: "kill", Label: "Kill the controller", Command: inBrowser, Fields: []field{instanceField},
		do: func(l *Lab, v values) error {
			return l.withInstance(v["pod"], func(i *instance) error { l.kill(i); return nil })
		},
	},
	{
		Name: "freeze", Label: "Freeze it", Command: inBrowser, Fields: []field{instanceField},
		do: func(l *Lab, v values) error { return l.withInstance(v["pod"], l.freeze) },
	},
	{
		Name: "thaw", Label: "Thaw it", Command: inBrowser, Fields: []field{instanceField},
		do: func(l *Lab, v values) error { return l.withInstance(v["pod"], l.thaw) },
	},
	{
		Name: "restart", Label: "Restart it", Command: inBrowser, Fields: []field{instanceField},
		do: func(l *Lab, v values) error {
			return l.withInstance(v["pod"], func(i *instance) error {
				l.kill(i)
				l.start(i)
				return nil
			})
		},
	},
	{
		Name: "replicas", Label: "Run replicas", Command: "kubectl scale -n sample-controller deployment/sample-controller --replicas={count}",
		Fields: []field{{Name: "count", Default: "2", Options: []string{"1", "2"}}},
		do: func(l *Lab, v values) error {
			l.stopInstances()
			l.healWatches()
			l.startInstances(v.number("count"))
			return nil
		},
	},
	{
		Name: "killLeader", Label: "Kill the leader", Command: inBrowser,
		do: func(l *Lab, _ values) error {
			return l.withInstance("", func(i *instance) error { l.kill(i); return nil })
		},
	},
	{
		Name: "terminateLeader", Label: "Terminate the leader (SIGTERM)", Command: inBrowser,
		do: func(l *Lab, _ values) error {
			return l.withInstance("", func(i *instance) error { l.host.Terminate(i.name); return nil })
		},
	},
	{
		Name: "revoke", Label: "Revoke a permission", Command: "kubectl edit clusterrole/sample-controller",
		Fields: []field{{Name: "verb", Default: "create", Options: []string{"create", "patch", "delete"}}},
		do: func(l *Lab, v values) error {
			l.change(func() { l.revoked = v["verb"] })
			return nil
		},
	},
	{
		Name: "grant", Label: "Grant it again", Command: "kubectl edit clusterrole/sample-controller",
		do: func(l *Lab, _ values) error {
			l.change(func() { l.revoked = "" })
			return nil
		},
	},
}

// injectWatchFault applies a fault of watches to all instances, and remembers it.
func (l *Lab) injectWatchFault(fault string) error {
	for _, i := range l.instances {
		applyWatchFault(i.connection, fault)
	}
	l.change(func() { l.lasting[fault] = true })
	return nil
}

// healWatches ends all faults of watches.
func (l *Lab) healWatches() {
	l.change(func() { clear(l.lasting) })
	for _, i := range l.instances {
		i.connection.Heal()
	}
}

// withInstance does something to the instance of a name or, without a name, to the leader.
func (l *Lab) withInstance(name string, do func(*instance) error) error {
	l.lock.Lock()
	i := l.find(name)
	l.lock.Unlock()
	switch {
	case i == nil && name == "":
		return errors.New("no instance leads")
	case i == nil:
		return fmt.Errorf("there is no instance %s", name)
	}
	return do(i)
}
