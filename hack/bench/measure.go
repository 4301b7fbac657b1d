// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// settlePeriod is how long a program may tidy up after a convergence, and idlePeriod how long it is then watched: longer
	// than the resync period.
	settlePeriod = 5 * time.Second
	idlePeriod   = 40 * time.Second
	// fillPeriod is how long a program that has just started may take to fill its caches with what needs no change.
	fillPeriod = 20 * time.Second

	// With more Foos than this only cold convergence and idling are measured: the rest would take long and tell nothing new.
	mostInAllPhases = 10_000

	// A user's edits: how many, and how long after each other.
	edits      = 500
	editPeriod = 50 * time.Millisecond
)

// measurement is what one program did with so many Foos and workers.
type measurement struct {
	program     string
	foos        int
	workers     int
	cold, scale phase
	// The rest is NaN or nil for a bare program.
	idleCPU      float64 // part of one core
	idleRequests requests
	steady       float64 // resident memory in bytes, with all Foos and their Deployments
	peak         float64
	foreign      float64 // resident memory that as many Deployments of other people add
	alone        latency
	underLoad    latency
}

// summary returns what several rounds have measured of the same: the last one, which has all phases, with the mean of the cold
// convergences and the medians of the edits of all rounds.
func summary(rounds []measurement) measurement {
	result := rounds[len(rounds)-1]
	var cold []phase
	var alone, underLoad []latency
	for _, round := range rounds {
		cold, alone, underLoad = append(cold, round.cold), append(alone, round.alone), append(underLoad, round.underLoad)
	}
	result.cold, result.alone, result.underLoad = mean(cold), median(alone), median(underLoad)
	return result
}

// phase is one convergence of all Foos.
type phase struct {
	converged
	cpu      float64 // seconds
	requests requests
}

// mean returns what the rounds of a phase took on average, the least that was reached in one of them, and the first one's requests.
// A median may be of either of the two speeds that a shared machine often has.
func mean(rounds []phase) phase {
	result := rounds[0]
	for _, p := range rounds[1:] {
		result.all += p.all
		result.cpu += p.cpu
		result.deployments = min(result.deployments, p.deployments)
		result.statuses = min(result.statuses, p.statuses)
		result.events = min(result.events, p.events)
	}
	result.all /= time.Duration(len(rounds))
	result.cpu /= float64(len(rounds))
	return result
}

// latency is the time from a user's patch of a Foo to the Deployment's new spec.
type latency struct{ p50, p99 time.Duration }

// median returns the median of each of the percentiles, for which a round that something else on the machine has disturbed does
// not count.
func median(rounds []latency) latency {
	of := func(part func(latency) time.Duration) time.Duration {
		var sorted []time.Duration
		for _, l := range rounds {
			sorted = append(sorted, part(l))
		}
		slices.Sort(sorted)
		return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	}
	return latency{
		p50: of(func(l latency) time.Duration { return l.p50 }),
		p99: of(func(l latency) time.Duration { return l.p99 }),
	}
}

// runner measures one program on a cluster of its own.
type runner struct {
	*testCluster
	*observer
	program    program
	user       string
	kubeconfig string
	foos       int
	workers    int
	// generation is that of all Foos, and how many replicas each should have.
	generation int64
	running    *running
	result     measurement
}

// measure measures one program with so many Foos and workers, in the phases that every round has, and in the others in the last.
func measure(ctx context.Context, p program, foos, workers int, last bool) (measurement, error) {
	c, err := startCluster(ctx)
	if err != nil {
		return measurement{}, err
	}
	defer c.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nan := math.NaN()
	r := &runner{testCluster: c, program: p, user: p.name, foos: foos, workers: workers, generation: 1, result: measurement{
		program: p.name, foos: foos, workers: workers, idleCPU: nan, steady: nan, peak: nan, foreign: nan,
	}}
	// Administrators are exempt from the API server's priority and fairness, whose limits are not what is measured.
	if r.kubeconfig, err = c.KubeconfigFor(r.user, "system:masters"); err != nil {
		return measurement{}, err
	}
	if err := c.createFoos(ctx, benchNamespace, foos); err != nil {
		return measurement{}, err
	}
	if r.observer, err = startObserver(ctx, c); err != nil {
		return measurement{}, err
	}
	steps := []func(context.Context) error{r.cold}
	if last && !p.bare {
		steps = append(steps, r.idle)
	}
	if foos <= mostInAllPhases {
		if last {
			steps = append(steps, r.scaleAll)
		}
		if !p.bare {
			steps = append(steps, r.editAlone, r.editUnderLoad)
		}
		if last && !p.bare {
			steps = append(steps, r.addForeign)
		}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return measurement{}, err
		}
		if err := r.running.check(); err != nil {
			return measurement{}, err
		}
	}
	r.running.stop()
	return r.result, c.Err()
}

// cold starts the program when all Foos are there and none has been served.
func (r *runner) cold(ctx context.Context) error {
	var err error
	r.result.cold, err = r.converge(ctx, r.start)
	return err
}

func (r *runner) start(ctx context.Context) error {
	var err error
	r.running, err = r.program.start(ctx, r.testCluster, r.kubeconfig, r.workers)
	return err
}

// scaleAll has users scale all Foos.
func (r *runner) scaleAll(ctx context.Context) error {
	var err error
	r.generation++
	r.result.scale, err = r.converge(ctx, func(ctx context.Context) error {
		return r.scaleFoos(ctx, benchNamespace, r.foos, int32(r.generation))
	})
	return err
}

// converge measures how all Foos get to their generation after begin.
func (r *runner) converge(ctx context.Context, begin func(context.Context) error) (phase, error) {
	var before float64
	var err error
	if r.running != nil {
		if before, err = r.running.cpu(); err != nil {
			return phase{}, err
		}
	}
	r.observer.begin(r.foos, r.generation)
	began := time.Now()
	if err := begin(ctx); err != nil {
		return phase{}, err
	}
	result := phase{}
	if result.converged, err = r.waitForRound(ctx, began); err != nil {
		return phase{}, err
	}
	after, err := r.running.cpu()
	if err != nil {
		return phase{}, errors.Join(err, r.running.check())
	}
	result.cpu = after - before
	if err := sleep(ctx, settlePeriod); err != nil { // Requests that come late are part of the price.
		return phase{}, err
	}
	result.requests, err = r.requestsOf(r.user, began, time.Now())
	return result, err
}

// idle measures what the program does when there is nothing to do.
func (r *runner) idle(ctx context.Context) error {
	began := time.Now()
	before, err := r.running.cpu()
	if err != nil {
		return err
	}
	if err := sleep(ctx, idlePeriod); err != nil {
		return err
	}
	after, err := r.running.cpu()
	if err != nil {
		return err
	}
	resident, err := r.running.resident()
	if err != nil {
		return err
	}
	r.result.idleCPU = (after - before) / time.Since(began).Seconds()
	r.result.steady = float64(resident)
	r.result.peak = float64(r.running.peak.Load())
	r.result.idleRequests, err = r.requestsOf(r.user, began, time.Now())
	return err
}

// addForeign measures the memory that Deployments of other people add.
func (r *runner) addForeign(ctx context.Context) error {
	if _, err := r.waitForRound(ctx, time.Now()); err != nil {
		return err
	}
	r.running.stop()
	resident := [2]uint64{}
	for i := range resident {
		if err := r.start(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, fillPeriod); err != nil {
			return err
		}
		var err error
		if resident[i], err = r.running.resident(); err != nil {
			return err
		}
		if i == 0 {
			r.running.stop()
			if err := r.createForeignDeployments(ctx, r.foos); err != nil {
				return err
			}
		}
	}
	r.result.foreign = float64(resident[1]) - float64(resident[0])
	return nil
}

// editAlone measures edits when there is nothing else to do.
func (r *runner) editAlone(ctx context.Context) error {
	if err := r.createFoos(ctx, editedNamespace, edits); err != nil {
		return err
	}
	if err := sleep(ctx, settlePeriod); err != nil {
		return err
	}
	var err error
	r.result.alone, err = r.edit(ctx, 2, false)
	return err
}

// editUnderLoad measures edits while the program, just started, serves all other Foos, which were scaled meanwhile.
func (r *runner) editUnderLoad(ctx context.Context) error {
	r.running.stop()
	r.generation++
	r.observer.begin(r.foos, r.generation)
	if err := r.scaleFoos(ctx, benchNamespace, r.foos, int32(r.generation)); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.wait(ctx, func() bool { return len(r.deployments.names) > 0 }); err != nil {
		return err
	}
	var err error
	r.result.underLoad, err = r.edit(ctx, 3, true)
	return err
}

// edit has a user change one Foo after the other, whether or not the program keeps up, and returns how long those edits took
// that began under load, or all of them.
func (r *runner) edit(ctx context.Context, replicas int32, onlyUnderLoad bool) (latency, error) {
	ticker := time.NewTicker(editPeriod)
	defer ticker.Stop()
	for i := range edits {
		<-ticker.C
		r.beginEdit(nameOf(i), replicas)
		if err := r.scaleFoo(ctx, editedNamespace, nameOf(i), replicas); err != nil {
			return latency{}, err
		}
	}
	err := r.wait(ctx, func() bool {
		for _, edit := range r.edits {
			if edit.took == 0 {
				return false
			}
		}
		return true
	})
	if err != nil {
		return latency{}, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	var took []time.Duration
	for name, edit := range r.edits {
		if edit.took == 0 {
			return latency{}, fmt.Errorf("%s: the Deployment of the edited Foo %s has not followed", r.program.name, name)
		}
		if edit.underLoad == onlyUnderLoad {
			took = append(took, edit.took)
		}
	}
	if len(took) == 0 {
		return latency{}, nil
	}
	slices.Sort(took)
	return latency{p50: percentile(took, 50), p99: percentile(took, 99)}, nil
}

// percentile returns the smallest of the sorted durations that so many of a hundred do not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
