// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { compare } from "./compare.js";
import { byId, element } from "./dom.js";
import * as labState from "./state.js";

const sinceBegin = (ms) => `${(ms / 1000).toFixed(2)} s`;

const phases = {
  building: "▸ The variant is being built.", controller: "▸ The scenario is played on the controller.", variant: "▸ The scenario is played on the variant.",
  played: "The variant runs instead of the controller.", failed: "✕ It has failed: ",
};

// The variants of the controller: their differences, and what the controller and a variant did in the same scenario, beside each other.
export class Variants {
  // cluster is the one in which scenarios are played, and live returns its steps. onShow is called with the variant that is opened, onPlay plays the
  // recording of a scenario, and onGo shows a step of a scenario. The last two show the picture. stepsOf returns the steps of a scenario.
  constructor({ cluster, live, onChange, onShow, onPlay, onGo, stepsOf }) {
    Object.assign(this, { cluster, live, onChange, onShow, onPlay, onGo, stepsOf, list: [], open: null, isPictureShown: false });
    this.state = null; // Which variant was chosen, and in which phase it is.
    this.awaited = null; // Which variant's recording is to be played once it is loaded.
  }

  load(list) { this.list = list; }
  find(id) { return this.list.find((variant) => variant.id === id); }

  show(id) {
    this.open = id;
    this.isPictureShown = false;
    if (id) this.onShow(id);
    this.onChange();
  }

  async playRecording(id) {
    Object.assign(this, { isPictureShown: true, awaited: id });
    this.onChange();
    try {
      await this.onPlay(id);
    } finally {
      this.awaited = null;
      this.onChange();
    }
  }

  get isBusy() { return Boolean(this.state) && !["played", "failed"].includes(this.state.phase); }
  get isPlaying() { return this.isBusy && this.state.phase !== "building"; }

  // run plays the scenario of a variant, on the controller and then on the variant, which runs until somebody goes back to the controller.
  async run({ id, scenario }) {
    const running = this.running = {};
    const enter = (phase, error) => {
      this.check(running);
      this.set({ id, phase, error });
    };
    try {
      enter("building");
      await this.cluster.build(id);
      for (const side of ["controller", "variant"]) {
        enter(side);
        await this.play(running, id, side, scenario);
      }
      enter("played");
    } catch (error) {
      if (this.running === running) enter("failed", error.message);
    }
  }

  // check fails if somebody has gone back to the controller meanwhile.
  check(running) {
    if (this.running !== running) throw new Error();
  }

  async play(running, id, side, { flags, steps }) {
    await this.post(`variants/${id}`, { action: "begin", side, flags });
    let since = this.last({ kind: "variant" });
    await this.until(running, since, { kind: "workersStarted" }, 30);
    for (const { act, fault, fields = {}, until, wait } of steps) {
      this.check(running);
      if (act || fault) {
        await this.post(act ? `acts/${act}` : `faults/${fault}`, fields);
        since = this.last({ kind: act ? "act" : "fault" });
      } else {
        await this.until(running, since, until, wait);
      }
    }
    this.check(running);
    await this.post(`variants/${id}`, { action: "end" });
  }

  // last returns the number of the last live step that has some values.
  last(values) { return this.live().findLast((step) => labState.matches(step, values)).seq; }

  async post(path, body) {
    const { error } = await this.cluster.post(path, body);
    if (error) throw new Error(error);
  }

  // until waits for a live step after the number since that has some values, if any, at most for some seconds of the cluster's clock.
  async until(running, since, values, seconds) {
    const end = this.cluster.now() + seconds * 1000;
    const isSeen = () => values && this.live().some((step) => step.seq > since && labState.matches(step, values));
    while (this.cluster.now() < end && !isSeen()) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      this.check(running);
    }
  }

  backToController() {
    this.cluster.post(`variants/${this.state.id}`, { action: "back" });
    this.leave();
  }

  // leave says that the controller runs again.
  leave() {
    this.running = null;
    this.set(null);
  }

  set(state) {
    this.state = state;
    if (state) {
      this.open = state.id;
      this.isPictureShown = this.isBusy; // While the scenario is played, the picture is worth watching.
    }
    this.onChange();
  }

  draw(lab) {
    const { state } = this;
    const variant = this.find(this.open);
    byId("variant").hidden = byId("variants").hidden || !variant || this.isPictureShown;
    const signature = JSON.stringify([this.list.length, this.open, state, lab && lab.phase, this.isPictureShown, this.awaited]);
    // The last steps of a scenario may arrive after the state that says that it has been played.
    if (signature === this.drawn && (!variant || this.compared)) return;
    const compared = variant ? compare(this.stepsOf(variant.id), variant) : null;
    if (signature === this.drawn && !compared) return;
    Object.assign(this, { drawn: signature, compared });
    this.drawBar(state);
    byId("variants").replaceChildren(
      element("p", {}, "Each variant is the controller without one thing that it does."),
      ...this.list.map((each) => element("div", {},
        element("button", { "aria-expanded": String(each.id === this.open), data: { id: each.id }, onclick: () => this.show(each.id === this.open && !this.isPictureShown ? null : each.id) }, each.title),
        each.id === this.open ? this.controls(each, lab, state) : null)));
    if (variant) byId("variant").replaceChildren(...this.page(variant));
  }

  drawBar(state) {
    byId("replaced").hidden = !state;
    if (!state) return;
    byId("replaced").replaceChildren(element("span", { className: "badge alarm" }, state.id), " ",
      element("button", { id: "back-to-controller", onclick: () => this.backToController() }, "back to the controller"));
  }

  controls(variant, lab, state) {
    const canRun = lab && lab.phase === "live" && lab.canBuild;
    return element("div", { className: "controls" },
      canRun ? element("button", { className: "primary run", disabled: this.isBusy, onclick: () => this.run(variant) }, "run it") : null,
      element("button", { className: "play", disabled: this.awaited !== null, onclick: () => this.playRecording(variant.id) },
        this.awaited === variant.id ? "loading the recording…" : "play the recording"),
      element("button", { onclick: () => { this.isPictureShown = !this.isPictureShown; this.onChange(); } }, this.isPictureShown ? "show the difference" : "show the picture"),
      canRun && !state ? element("p", {}, "The scenario begins in a cluster without Foos and Deployments. What is inferred (dashed) follows from the code of the controller, also while the variant runs.") : null,
      !canRun ? element("p", {}, "With ", element("code", {}, "make lab"), " in a clone it can be run.") : null,
      state && state.id === variant.id ? element("p", { className: "phase" }, element("b", {}, phases[state.phase]), state.error || "") : null);
  }

  // page shows the difference, and what both did if that is known.
  page(variant) {
    const { compared } = this;
    return [
      element("h2", {}, variant.title),
      element("p", { className: "question" }, variant.question),
      element("pre", { className: "diff", tabIndex: 0, "aria-label": "The difference between the controller and the variant" },
        variant.diff.trimEnd().split("\n").map((line) => element("span", { className: /^(---|\+\+\+) /.test(line) ? "" : { "+": "added", "-": "removed" }[line[0]] || "" }, line + "\n"))),
      ...(compared ? this.comparison(variant, compared) : []),
      element("details", { open: Boolean(compared) }, element("summary", {}, "What happens, and why"),
        element("p", {}, variant.seen), element("p", {}, element("b", {}, "The promise that it breaks: "), variant.promise),
        element("p", {}, element("b", {}, "The test that fails: "), element("code", {}, `${variant.test.name} in ${variant.test.package}`))),
    ];
  }

  comparison(variant, { rows, ends, traces, wrong }) {
    const isMissing = wrong && wrong.missing;
    const ofLane = { foos: "Foo", deployments: "Deployment" };
    const inTheEnd = (end) => [
      ...end.slice(0, 6).map(({ lane, object, what }) => element("div", {}, `${ofLane[lane]} ${labState.short(object)}: ${what}`)),
      end.length > 6 ? element("div", {}, `and ${end.length - 6} more`) : end.length === 0 ? "nothing is left" : null,
    ];
    const [at] = traces.flat().filter((row) => row.isWrong);
    return [
      at ? element("p", { className: "verdict" }, element("b", {}, isMissing ? "✕ The variant goes wrong: it never makes this step: " : "✕ The variant goes wrong with this step: "),
        element("button", { onclick: () => this.go(variant, at.seq) }, `${sinceBegin(at.at)} ${at.text}`)) : null,
      element("table", {},
        element("thead", {}, element("tr", {}, element("th", {}), element("th", {}, "the controller"), element("th", {}, "the variant"))),
        element("tbody", {}, rows.map(([name, controller, other]) => element("tr", { className: controller === other ? "" : "differs" },
          element("th", {}, name), element("td", {}, String(controller)), element("td", {}, String(other)))),
        element("tr", { className: JSON.stringify(ends[0]) === JSON.stringify(ends[1]) ? "" : "differs" }, element("th", {}, "in the end"),
          ends.map((end) => element("td", {}, inTheEnd(end)))))),
      element("div", { className: "traces" }, traces.map((rows, side) => element("ol", { "aria-label": side === 0 ? "The controller" : "The variant" },
        rows.map((row) => this.row(variant, row, isMissing)),
        side === 1 && isMissing ? element("li", { className: "wrong" }, element("b", {}, "✕ it goes wrong: "), "the marked step of the controller is missing") : null))),
    ];
  }

  go(variant, seq) {
    this.isPictureShown = true;
    this.onGo(variant.id, seq);
  }

  row(variant, row, isMissing) {
    return element("li", { className: `${row.stop}${row.isWrong ? " wrong" : ""}` }, element("button", { data: { seq: row.seq }, onclick: () => this.go(variant, row.seq) },
      element("span", { className: "soft" }, `${sinceBegin(row.at)} `), row.isWrong ? element("b", {}, isMissing ? "✓ only the controller: " : "✕ it goes wrong: ") : "", row.text));
  }
}
