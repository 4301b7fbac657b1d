// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import * as labState from "./state.js";

// What the controller and a variant of it did in the same scenario, as a pure function of the steps.

const sides = ["controller", "variant"];

// runs returns the steps of the last time that the scenario of a variant was played: on the controller, and on the variant. A run that has
// not ended is left out.
function runs(steps, id) {
  const found = {};
  let run = null, side = null;
  for (const step of steps) {
    if (step.kind === "variant") {
      [run, side] = step.name === id ? [[], step.result] : [null, null];
      for (const old of sides.slice(Math.max(0, sides.indexOf(side)))) if (run) delete found[old];
    }
    if (!run) continue;
    run.push(step);
    if (step.kind === "variantEnd" && step.stop === "fault") {
      found[side] = run;
      run = null;
    }
  }
  return found;
}

// compare returns what both did, or null if there are no runs of both.
export function compare(steps, { id, scenario }) {
  const { controller, variant } = runs(steps, id);
  if (!controller || !variant) return null;
  const wrong = wrongStep(controller, variant, scenario.wrong);
  const compared = [controller, variant].map((run) => summary(run, wrong));
  const names = [...new Set(compared.flatMap(({ counts }) => [...counts.keys()]))].sort();
  return {
    wrong,
    rows: [...names.map((name) => [name, ...compared.map(({ counts }) => counts.get(name) || 0)]),
      ["writes of Foos and Deployments", ...compared.map(({ writes }) => writes)],
      ["syncs", ...compared.map(({ syncs }) => syncs)]],
    ends: compared.map(({ end }) => end),
    traces: compared.map(({ trace }) => trace),
  };
}

// wrongStep returns the step at which the variant goes wrong: one that it makes, or one that only the controller makes.
function wrongStep(controller, variant, wrong) {
  const step = (wrong.missing ? controller : variant).filter((step) => labState.matches(step, wrong.step))[(wrong.nth || 1) - 1];
  return step ? { seq: step.seq, request: step.request, missing: Boolean(wrong.missing) } : null;
}

function summary(run, wrong) {
  const counts = new Map();
  const requests = run.filter((step) => step.kind === "request" && !labState.isBackground(step));
  for (const { verb, resource } of requests) counts.set(`${verb} ${resource}`, (counts.get(`${verb} ${resource}`) || 0) + 1);
  return {
    counts,
    writes: requests.filter((step) => labState.isWrite(step) && step.resource !== "events").length,
    syncs: run.filter((step) => step.kind === "syncStart").length,
    end: run.filter((step) => step.kind === "variantEnd" && step.lane).map(({ lane, object, what }) => ({ lane, object, what })),
    trace: trace(run, wrong),
  };
}

// trace returns the acts, faults and requests of a run, each with the time since its beginning in ms.
function trace(run, wrong) {
  const began = Date.parse(run[0].time);
  const answers = new Map(run.filter((step) => step.kind === "response" || step.kind === "noResponse").map((step) => [step.request, step]));
  const isWrong = (step) => wrong !== null && (step.seq === wrong.seq || step.kind === "request" && step.seq === wrong.request);
  const rows = [];
  for (const step of run) {
    const isRequest = step.kind === "request" && !labState.isBackground(step);
    const isOfRequest = ["response", "noResponse"].includes(step.kind);
    if (!isRequest && !["act", "fault", "podExited", "podStarted", "leader"].includes(step.kind) && (!isWrong(step) || isOfRequest)) continue;
    rows.push({ seq: step.seq, at: Date.parse(step.time) - began, stop: step.stop, text: isRequest ? requestText(step, answers.get(step.seq)) : text(step), isWrong: isWrong(step) });
  }
  return rows;
}

function requestText({ verb, resource, object }, answer) {
  const status = !answer ? "" : answer.kind === "noResponse" ? " → no response" : ` → ${answer.status}`;
  return `${verb.toUpperCase()} ${resource}${resource === "events" ? "" : ` ${labState.short(object)}`}${status}`;
}

const text = (step) => [step.what, step.why && `(${step.why})`, step.error].filter(Boolean).join(" ");
