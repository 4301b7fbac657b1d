// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";
import * as glossary from "./glossary.js";
import * as labState from "./state.js";

// How steps and times are put into words.

export const seconds = (ms) => ms < 1 ? "0 ms" : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
const stopTitle = (step) => step.stop === "sync" ? "syncHandler" : step.stop === "fault" && step.kind !== "fault" ? "Process" : (glossary.stops[step.stop] || { title: step.stop }).title;
export const laneName = (lane) => ({ foos: "Foos", deployments: "Deployments" })[lane] || "";

// subject returns what a step is about. If there are several pods, it says which one.
export function subject(step, hasPods) {
  const name = labState.short(step.key || step.object || step.name);
  return [step.pod && (hasPods || !name) && `pod ${step.pod}`, name].filter(Boolean).join(": ");
}

// sentence returns what a step is about, and what happens, in nodes.
export function sentence(state, step) {
  const isInLane = ["reflector", "fifo", "indexer", "handler", "api-server"].includes(step.stop);
  const what = step.kind === "sync" && step.lane ? `${step.lane === "foos" ? "Foo" : "Deployment"}: ${step.what}`
    : step.kind === "response" ? `${step.status} ${step.what || ""} to ${step.verb} ${step.resource}` : step.what || step.kind;
  return [
    element("b", {}, stopTitle(step), isInLane && step.lane ? ` of ${laneName(step.lane)}` : ""),
    ` · ${[subject(step, state.pods.size > 1), step.resourceVersion && `rv ${step.resourceVersion}`].filter(Boolean).join(", ")} · `,
    element("b", {}, what), step.why ? ` – ${step.why}` : "",
    labState.isEcho(state, step) ? " – ↺ the echo of the controller's own write" : "",
    step.error ? ` – ✕ ${step.error}` : "",
  ];
}
