// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { byId, element, svg } from "./dom.js";
import * as labState from "./state.js";
import { seconds } from "./words.js";

// queuePicture returns a picture of the sets of keys in a pod's workqueue, and what moves a key from one to another.
export function queuePicture(pod) {
  const set = (name, keys, ...ways) => element("div", { className: "set" },
    element("h4", {}, name), keys.length === 0 ? element("span", { className: "soft" }, "empty") : keys.slice(0, 8).map((key) => element("span", { className: "chip" }, key)),
    keys.length > 8 ? ` and ${keys.length - 8} more` : "", ways.map((way) => element("div", { className: "soft" }, way)));
  return element("div", { className: "sets" },
    set("queued: waits for a worker", [...pod.waiting.keys()].map(labState.short), "Add: into it, unless it is there", "Get: from it, to a worker"),
    set("processing: a worker has it", [...pod.processing].map(([key, item]) => labState.short(key) + (item.again ? " ↻" : "")),
      "Add meanwhile: remembered (↻)", "Done: out of it; ↻ is queued again"),
    set("waiting: for a time", [...pod.delayed.values()].map(({ key }) => labState.short(key)), "AddAfter, AddRateLimited: into it", "When the time has come: queued"));
}

// drawLease draws who holds the Lease: a mark for each renewal, and a bar for as long as the newest one lasts. It is hidden without an
// election.
export function drawLease(state, now) {
  const root = byId("lease");
  root.hidden = state.leases.length === 0 || state.pods.size < 2;
  if (root.hidden) return;
  const [width, past, future, rowHeight] = [200, 12000, 8000, 16];
  const x = (time) => Math.max(0, Math.min(width, (time - now + past) / (past + future) * width));
  const names = [...state.pods.keys()].sort();
  const y = (pod) => 4 + rowHeight * names.indexOf(pod);
  const newest = state.leases.at(-1);
  const bar = (from, until, pod, className) =>
    svg("rect", { class: className, x: 14 + x(from), y: y(pod), width: Math.max(1, x(until) - x(from)), height: 9 });
  const left = Math.max(0, newest.until - now);
  const drawing = svg("svg", { viewBox: `0 0 ${width + 16} ${rowHeight * names.length + 6}`, role: "img", "aria-label": "The Lease" },
    ...names.map((name) => svg("text", { x: 2, y: y(name) + 9 }, name)),
    ...(newest.until > now ? [bar(newest.at, newest.until, newest.pod, "valid")] : []),
    ...state.leases.filter(({ at }) => at > now - past).map(({ pod, at }) => bar(at, at, pod, "renewal")),
    svg("line", { class: "now", x1: 14 + x(now), x2: 14 + x(now), y1: 0, y2: rowHeight * names.length + 4 }));
  const holder = newest.until === newest.at ? `pod ${newest.pod} has released the Lease` : left > 0 ? `pod ${newest.pod} holds the Lease for another ${seconds(left)}` : "the Lease has expired";
  root.replaceChildren(element("b", {}, "Leader election: "), holder, drawing);
}
