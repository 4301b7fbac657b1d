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

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// script is what happens in a walk: the steps of users and operators, one after the other, the faults of requests and events, and the fault
// that lasts for hours, if there is one. All of it follows from the seed.
type script struct {
	name      string
	seed      uint64
	steps     []step
	long      *step            // a fault that lasts for hours, after the steps
	meanwhile []step           // what users do as long as it lasts
	probes    []*probe         // what is tried at the end
	faults    map[string]fault // those of requests by their ids, or nil for those that follow from the seed
	noLags    bool             // No event lags behind.
	until     int              // the last part of the walk, or 0 for all
}

// seedName names the seed, if there is one.
func (s script) seedName() string {
	if s.seed == 0 {
		return ""
	}
	return fmt.Sprint("seed ", s.seed)
}

// step is an action or a fault.
type step struct {
	after    time.Duration // since the step before
	action   *action
	target   int // which object or instance
	argument int // to what
}

// duration returns how long a step lasts, at most a limit.
func (s step) duration(limit time.Duration) time.Duration {
	return limit * time.Duration(s.argument>>3) / time.Duration(maxArgument>>3)
}

const (
	maxArgument = 1 << 16
	// actionCount is how many actions and faults follow the creation of the users' objects.
	actionCount = 80
	// longEvery is one in how many walks has a fault that lasts for hours.
	longEvery = 4
	// longProbesEvery is one in how many walks has a certain probe that takes an hour. Those with such a fault have none.
	longProbesEvery = 32
	// longTime is about how long it lasts, and meanwhileCount how many actions users take meanwhile.
	longTime, meanwhileCount = 2 * time.Hour, 12
)

// newScript returns the script of a seed: the users' objects are created, and then anything happens.
func (all *tester) newScript(seed uint64) script {
	random := rand.New(rand.NewPCG(seed, 0))
	s := script{name: fmt.Sprintf("the walk of seed %d", seed), seed: seed}
	newStep := func(a *action, after time.Duration) step {
		return step{after: after, action: a, target: random.IntN(maxArgument), argument: random.IntN(maxArgument)}
	}
	s.steps = all.creations(random)
	weighted := weigh(slices.Concat(pointers(userActions), pointers(programActions), pointers(faultActions)))
	for range actionCount {
		s.steps = append(s.steps, newStep(weighted[random.IntN(len(weighted))], time.Duration(random.IntN(400))*time.Millisecond))
	}
	if seed%longEvery == 0 {
		s.long = new(newStep(&longFaults[random.IntN(len(longFaults))], 0))
		weighted = weigh(slices.Concat(pointers(userActions), pointers(programActions)))
		for range meanwhileCount {
			after := time.Duration(random.IntN(int(2 * longTime / meanwhileCount)))
			s.meanwhile = append(s.meanwhile, newStep(weighted[random.IntN(len(weighted))], after))
		}
	}
	s.probes = []*probe{&shortProbes[random.IntN(len(shortProbes))]}
	if n := seed % longProbesEvery; n%2 == 1 && n/2 < uint64(len(longProbes)) {
		s.probes = append(s.probes, &longProbes[n/2])
	}
	return s
}

// newProbe returns the script of a probe alone: the users' objects are created, and nothing fails.
func (all *tester) newProbe(p *probe) script {
	return script{
		name: fmt.Sprintf("the probe %q", p.name), steps: all.creations(rand.New(rand.NewPCG(0, 0))), probes: []*probe{p},
		faults: map[string]fault{}, noLags: true,
	}
}

// creations are the steps that create the users' objects.
func (all *tester) creations(random *rand.Rand) (steps []step) {
	for i := range all.Objects * len(all.kinds) {
		steps = append(steps, step{action: &userActions[0], target: i, argument: random.IntN(maxArgument)})
	}
	return steps
}

func pointers[T any](list []T) (p []*T) {
	for i := range list {
		p = append(p, &list[i])
	}
	return p
}

// weigh repeats each action as often as its weight says.
func weigh(actions []*action) (weighted []*action) {
	for _, a := range actions {
		weighted = append(weighted, slices.Repeat([]*action{a}, a.weight)...)
	}
	return weighted
}

// choice returns a number from 0 to n-1 that depends on nothing but the seed and a name.
func (s script) choice(n int, name string) int {
	return rand.New(rand.NewPCG(s.seed, hashOf(name))).IntN(n)
}

func hashOf(name string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return hash.Sum64()
}

// fault is what happens to a request. Its id says to which.
type fault struct {
	apiserver.Fault
	what string // It is empty if nothing happens.
	kill bool   // The instance is killed as well: after the request was applied if that is lost, and before otherwise.
}

// requestFault returns the fault of a request: one in twelve has one.
func (s script) requestFault(id string, r *apiserver.Request) fault {
	if s.faults != nil {
		return s.faults[id]
	}
	if s.choice(12, id) != 0 {
		return fault{}
	}
	faults := s.possibleFaults(id, r)
	return faults[s.choice(len(faults), id+" kind")]
}

func (s script) possibleFaults(id string, r *apiserver.Request) []fault {
	delay := time.Duration(s.choice(3000, id+" delay")) * time.Millisecond
	broken, lost := apiserver.Fault{Err: apiserver.ErrConnection}, apiserver.Fault{Lost: true}
	faults := []fault{
		{what: "429 Too Many Requests", Fault: apiserver.Fault{Err: apierrors.NewTooManyRequests("injected", 1)}},
		{what: "500 Internal Server Error", Fault: apiserver.Fault{Err: errInjected}},
		{what: "503 Service Unavailable", Fault: apiserver.Fault{Err: apierrors.NewServiceUnavailable("injected")}},
		{what: "504 Gateway Timeout, after 1 s", Fault: apiserver.Fault{Err: apierrors.NewTimeoutError("injected", 0), Delay: time.Second}},
		{what: "the connection breaks before it is applied", Fault: broken},
		{what: "the connection breaks after it was applied", Fault: lost},
		{what: fmt.Sprintf("the request takes %s", delay), Fault: apiserver.Fault{Delay: delay}},
		{what: fmt.Sprintf("the response takes %s", delay), Fault: apiserver.Fault{AfterDelay: delay}},
	}
	if r.IsWrite() && r.Resource != leases {
		conflict := apierrors.NewConflict(r.Resource, r.Name, errors.New("injected"))
		faults = append(faults,
			fault{what: "409 Conflict", Fault: apiserver.Fault{Err: conflict}},
			fault{what: r.Client + " is killed before it is applied", Fault: broken, kill: true},
			fault{what: r.Client + " is killed after it was applied", Fault: lost, kill: true})
	}
	return faults
}

var errInjected = apierrors.NewInternalError(errors.New("injected"))

// lag returns by how much an event lags behind: one in four does.
func (s script) lag(id string) time.Duration {
	if s.noLags || s.choice(4, id) != 0 {
		return 0
	}
	return time.Duration(s.choice(1500, id+" lag")) * time.Millisecond
}
