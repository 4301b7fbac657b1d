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
	// settlePeriod is the time for late requests after a round. idlePeriod is two resync periods.
	settlePeriod = 5 * time.Second
	idlePeriod   = 60 * time.Second
	// syncPeriod is the time for the initial list after a restart, with no changes to make.
	syncPeriod = 20 * time.Second

	// maxFoosInAllPhases limits the long phases: with more Foos, scaling and other Deployments are not measured.
	maxFoosInAllPhases = 10_000

	edits      = 500
	editPeriod = 50 * time.Millisecond
)

// measurement is the result of a program for a number of Foos and workers. What is not measured is NaN, nil or zero.
type measurement struct {
	program      string
	foos         int
	workers      int
	cold, scale  phase
	idleCPU      float64 // seconds in idlePeriod
	idleRequests requests
	steady       float64 // resident memory in bytes, with all Foos and their Deployments
	peak         float64
	unowned      float64 // additional resident memory with as many unowned Deployments
	alone        latency
	underLoad    latency
}

// summary combines the rounds: the last one, which has all phases, with the means of all cold starts and scalings, and the
// medians of all edits.
func summary(rounds []measurement) measurement {
	result := rounds[len(rounds)-1]
	var cold, scale []phase
	var alone, underLoad []latency
	for _, round := range rounds {
		cold, scale = append(cold, round.cold), append(scale, round.scale)
		alone, underLoad = append(alone, round.alone), append(underLoad, round.underLoad)
	}
	result.cold, result.scale = mean(cold), mean(scale)
	result.alone, result.underLoad = median(alone), median(underLoad)
	return result
}

// phase is the convergence of all Foos and what it cost.
type phase struct {
	converged
	cpu          float64 // seconds
	apiServerCPU float64 // seconds
	requests     requests
}

// mean returns the mean times and CPU usage, the least progress of all rounds, and the requests of the first round. It is not a
// median because a shared machine often alternates between two speeds.
func mean(rounds []phase) phase {
	result := rounds[0]
	for _, p := range rounds[1:] {
		result.first += p.first
		result.took += p.took
		result.cpu += p.cpu
		result.apiServerCPU += p.apiServerCPU
		result.deployments = min(result.deployments, p.deployments)
		result.statuses = min(result.statuses, p.statuses)
		result.events = min(result.events, p.events)
	}
	result.first /= time.Duration(len(rounds))
	result.took /= time.Duration(len(rounds))
	result.cpu /= float64(len(rounds))
	result.apiServerCPU /= float64(len(rounds))
	return result
}

// latency is the time from a user's patch of a Foo to the update of the Deployment's spec.
type latency struct{ p50, p99 time.Duration }

// median returns the median of each percentile, which ignores a round that other load on the machine has disturbed.
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

// runner measures a program on its own cluster.
type runner struct {
	*testCluster
	*observer
	program    program
	user       string
	kubeconfig string
	foos       int
	workers    int
	generation int64 // of all Foos, and also their number of replicas
	running    *running
	result     measurement
}

// measure measures a program for a number of Foos and workers. Only the last round has all phases.
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
		program: p.name, foos: foos, workers: workers, idleCPU: nan, steady: nan, peak: nan, unowned: nan,
	}}
	// system:masters is exempt from API Priority and Fairness, which would limit the throughput.
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
	if last && !p.writesOnly {
		steps = append(steps, r.idle)
	}
	if foos <= maxFoosInAllPhases {
		steps = append(steps, r.scaleAll)
	}
	if !p.writesOnly {
		steps = append(steps, r.editAlone, r.editUnderLoad)
	}
	if last && !p.writesOnly && foos <= maxFoosInAllPhases {
		steps = append(steps, r.addUnowned)
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

// cold measures a cold start: all Foos exist, and none has been reconciled.
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

// scaleAll measures how all Foos converge after they are scaled.
func (r *runner) scaleAll(ctx context.Context) error {
	var err error
	r.generation++
	r.result.scale, err = r.converge(ctx, func(ctx context.Context) error {
		return r.scaleFoos(ctx, benchNamespace, r.foos, int32(r.generation))
	})
	return err
}

// converge measures how all Foos converge to r.generation after begin.
func (r *runner) converge(ctx context.Context, begin func(context.Context) error) (phase, error) {
	var before float64
	var err error
	if r.running != nil {
		if before, err = r.running.cpu(); err != nil {
			return phase{}, err
		}
	}
	apiServerBefore, err := r.apiServerCPU(ctx)
	if err != nil {
		return phase{}, err
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
	apiServerAfter, err := r.apiServerCPU(ctx)
	if err != nil {
		return phase{}, err
	}
	result.apiServerCPU = apiServerAfter - apiServerBefore
	if err := sleep(ctx, settlePeriod); err != nil { // Late requests count, too.
		return phase{}, err
	}
	result.requests, err = r.requestsOf(r.user, began, time.Now())
	return result, err
}

// idle measures the steady state.
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
	r.result.idleCPU = after - before
	r.result.steady = float64(resident)
	r.result.peak = float64(r.running.peak.Load())
	r.result.idleRequests, err = r.requestsOf(r.user, began, time.Now())
	return err
}

// addUnowned measures the additional memory with as many Deployments that are not controlled by a Foo.
func (r *runner) addUnowned(ctx context.Context) error {
	if _, err := r.waitForRound(ctx, time.Now()); err != nil {
		return err
	}
	r.running.stop()
	resident := [2]uint64{}
	for i := range resident {
		if err := r.start(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, syncPeriod); err != nil {
			return err
		}
		var err error
		if resident[i], err = r.running.resident(); err != nil {
			return err
		}
		if i == 0 {
			r.running.stop()
			if err := r.createUnownedDeployments(ctx, r.foos); err != nil {
				return err
			}
		}
	}
	r.result.unowned = float64(resident[1]) - float64(resident[0])
	return nil
}

// editAlone measures edits in steady state.
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

// editUnderLoad measures edits while the program, just restarted, reconciles all other Foos, which were scaled in the meantime.
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

// edit scales one Foo after the other at a fixed rate, and returns the latency of the edits that began under load, or of those
// that did not.
func (r *runner) edit(ctx context.Context, replicas int32, underLoad bool) (latency, error) {
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
			return latency{}, fmt.Errorf("%s did not update the Deployment of the edited Foo %s", r.program.name, name)
		}
		if edit.underLoad == underLoad {
			took = append(took, edit.took)
		}
	}
	if len(took) == 0 {
		return latency{}, nil
	}
	slices.Sort(took)
	return latency{p50: percentile(took, 50), p99: percentile(took, 99)}, nil
}

// percentile returns a percentile of sorted durations by the nearest-rank method.
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
