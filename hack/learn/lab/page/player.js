// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import * as labState from "./state.js";

// The player has the steps and the position up to which they are shown. At speed 1 a step takes 0.4 s; if many happen at once, it shows
// several at a time, and how many.
export class Player {
  static stepTime = 400; // ms
  static burst = 12; // steps that wait, from which on each takes less time.
  static batchBelow = 40; // ms: steps that would take less are shown together.
  static batchTime = 1200; // ms, in which most of the steps that wait are shown then.
  static longestPause = 1500; // ms, between steps of a recording
  static keep = 40000; // steps of a live lab.

  // onStep is called with a step that begins to travel, onProgress with how far it is, and onState with the steps that have just been
  // shown, if any, and with their ways if they were shown together. travel returns the way of a step, and now the time of the cluster in ms.
  // stopsBefore is asked before a step is shown whether everything has to stand still before it.
  constructor({ onStep, onProgress, onState, travel, now, stopsBefore }) {
    Object.assign(this, { onStep, onProgress, onState, travel, now, stopsBefore });
    this.speed = 1;
    this.playing = true;
    this.reset(false);
  }

  reset(live) {
    // base is the state before the first step.
    Object.assign(this, { steps: [], live, position: 0, state: labState.initial(), base: labState.initial(), moving: null, shownAt: 0 });
  }

  // load replaces the steps. A live player goes to the end, a recording begins at its start.
  load(steps, live) {
    this.reset(live);
    this.append(steps);
    this.seek(live ? this.steps.length : 0);
  }

  append(steps) {
    for (const step of steps) {
      step.at = Date.parse(step.time);
      this.steps.push(step);
    }
    const old = Player.keep / 2;
    if (this.live && this.playing && this.steps.length > Player.keep && this.position > old) {
      labState.apply(this.base, this.steps.splice(0, old));
      this.position -= old;
    }
  }

  // current is the step that is shown: the one that travels, or else the last one.
  get current() { return this.moving ? this.moving.step : this.state.step; }
  get shown() { return this.position + (this.moving ? 1 : 0); }
  get behind() { return this.steps.length - this.position; }

  // seek shows the state after a number of steps. Going back means to begin anew: even 40,000 steps take less than 0.1 s.
  seek(position) {
    position = Math.max(0, Math.min(position, this.steps.length));
    this.moving = null;
    if (position < this.position) Object.assign(this, { state: structuredClone(this.base), position: 0 });
    labState.apply(this.state, this.steps.slice(this.position, position));
    this.position = position;
    this.shownAt = performance.now();
    this.onState(this.state, []);
  }

  play() { this.playing = true; this.shownAt = performance.now(); }
  pause() {
    this.playing = false;
    if (this.moving) this.finish();
  }
  forward() {
    this.playing = false;
    if (this.moving) this.finish();
    else if (this.behind > 0) this.begin(performance.now(), Player.stepTime / this.speed);
  }
  back() {
    this.playing = false;
    this.seek(this.position - 1);
  }

  // burst is the number of steps that wait to be shown, or that in a recording happened within the next moment.
  burst() {
    if (this.live || this.position === 0) return Math.min(this.behind, this.live ? Infinity : 1);
    const until = this.steps[this.position - 1].at + 300;
    let count = 0;
    while (this.position + count < this.steps.length && this.steps[this.position + count].at <= until && count < 5000) count++;
    return Math.max(count, 1);
  }

  // gap is the time in ms between the step shown last and the next one, as it was and as it is shown.
  gap() {
    if (this.live || this.position === 0 || this.behind === 0) return { real: 0, shown: 0 };
    const real = this.steps[this.position].at - this.state.time;
    return { real, shown: real < 50 ? 0 : Math.min(real, Player.longestPause) / this.speed };
  }

  // clock is the time in the picture, for countdowns.
  clock(now) {
    if (this.live && this.playing && this.behind === 0) return Math.max(this.now(), this.state.time || 0);
    if (!this.playing || this.moving || this.state.time === null) return this.state.time || 0;
    const { real, shown } = this.gap();
    return this.state.time + (shown > 0 ? Math.min(1, (now - this.shownAt) / shown) * real : 0);
  }

  frame(now) {
    if (this.moving) {
      const progress = (now - this.moving.began) / this.moving.duration;
      if (progress < 1) this.onProgress(progress);
      else this.finish();
      return;
    }
    if (!this.playing || this.behind === 0 || now - this.shownAt < this.gap().shown || this.stopsBefore(this.steps[this.position])) return;
    const burst = this.burst();
    const duration = Player.stepTime / this.speed / Math.max(1, burst / Player.burst);
    if (duration >= Player.batchBelow) {
      this.begin(now, duration);
      return;
    }
    let count = 1;
    const most = Math.min(this.behind, burst, Math.max(2, Math.ceil(burst * (now - this.shownAt) / Player.batchTime)));
    while (count < most && !this.stopsBefore(this.steps[this.position + count])) count++;
    const steps = this.steps.slice(this.position, this.position + count);
    const ways = steps.map((step) => this.travel(this.state, step));
    labState.apply(this.state, steps);
    this.position += count;
    this.shownAt = now;
    this.onState(this.state, steps, ways);
  }

  begin(now, duration) {
    const step = this.steps[this.position];
    const travel = this.travel(this.state, step);
    // What only lights up a stop needs less time than what travels, and what goes on in the background none.
    this.moving = { step, began: now, duration: travel.quiet ? 1 : travel.arrow ? duration : duration * 0.7 };
    this.onStep(step, travel);
  }

  finish() {
    const { step } = this.moving;
    this.moving = null;
    labState.apply(this.state, [step]);
    this.position++;
    this.shownAt = performance.now();
    this.onState(this.state, [step]);
  }
}
