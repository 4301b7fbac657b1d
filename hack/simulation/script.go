// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// script is what happens in a walk: the steps of users and operators, one after the other, and the faults of requests and events. All of it
// follows from the seed.
type script struct {
	seed   uint64
	steps  []step
	faults map[string]Fault // those of requests by their ids, or nil for those that follow from the seed
	noLags bool             // No event lags behind.
}

// step is an action or a fault.
type step struct {
	after    time.Duration // since the step before
	kind     *kind
	target   int // which Foo, Deployment or instance
	argument int // to what
}

// duration returns how long a step lasts, at most a limit.
func (s step) duration(limit time.Duration) time.Duration {
	return limit * time.Duration(s.argument>>3) / time.Duration(maxArgument>>3)
}

const (
	actions     = 80
	fooCount    = 8
	nameCount   = fooCount + 2
	maxArgument = 1 << 16
)

// newScript returns the script of a seed: the Foos are created, and then anything happens.
func newScript(seed uint64) script {
	random := rand.New(rand.NewPCG(seed, 0))
	s := script{seed: seed}
	for i := range fooCount {
		s.steps = append(s.steps, step{kind: &kinds[0], target: i, argument: random.IntN(maxArgument)/nameCount*nameCount + i})
	}
	var weighted []*kind
	for i := range kinds {
		weighted = append(weighted, slices.Repeat([]*kind{&kinds[i]}, kinds[i].weight)...)
	}
	for range actions {
		chosen := weighted[random.IntN(len(weighted))]
		s.steps = append(s.steps, step{
			after: time.Duration(random.IntN(400)) * time.Millisecond, kind: chosen,
			target: random.IntN(maxArgument), argument: random.IntN(maxArgument),
		})
	}
	return s
}

// choice returns a number from 0 to n-1 that depends on nothing but the seed and a name.
func (s script) choice(n int, name string) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return rand.New(rand.NewPCG(s.seed, hash.Sum64())).IntN(n)
}

// requestFault returns the fault of a request: one in twelve has one.
func (s script) requestFault(id string, r *Request) Fault {
	if s.faults != nil {
		return s.faults[id]
	}
	if s.choice(12, id) != 0 {
		return Fault{}
	}
	delay := time.Duration(s.choice(3000, id+" delay")) * time.Millisecond
	injected := errors.New("injected")
	faults := []Fault{
		{what: "429 Too Many Requests", Response: apierrors.NewTooManyRequests("injected", 1)},
		{what: "500 Internal Server Error", Response: apierrors.NewInternalError(injected)},
		{what: "503 Service Unavailable", Response: apierrors.NewServiceUnavailable("injected")},
		{what: "504 Gateway Timeout, after 1 s", Response: apierrors.NewTimeoutError("injected", 0), Delay: time.Second},
		{what: "the connection breaks before it is applied", broken: true},
		{what: "the connection breaks after it was applied", Lost: true},
		{what: fmt.Sprintf("the request takes %s", delay), Delay: delay},
		{what: fmt.Sprintf("the response takes %s", delay), after: delay},
	}
	if r.IsWrite() && r.Resource != leases {
		faults = append(faults,
			Fault{what: "409 Conflict", Response: apierrors.NewConflict(r.GroupResource(), r.Name, injected)},
			Fault{what: r.client + " is killed before it is applied", broken: true, kill: true},
			Fault{what: r.client + " is killed after it was applied", Lost: true, kill: true})
	}
	return faults[s.choice(len(faults), id+" kind")]
}

// lag returns by how much an event lags behind: one in four does.
func (s script) lag(id string) time.Duration {
	if s.noLags || s.choice(4, id) != 0 {
		return 0
	}
	return time.Duration(s.choice(1500, id+" lag")) * time.Millisecond
}
