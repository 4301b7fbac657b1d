// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import * as labState from "./state.js";

// The checks of the exercises: whether the steps since an exercise was begun show that it is done.

const is = (values) => (step) => labState.matches(step, values);
const isAction = (step) => step.kind === "act" || step.kind === "fault";
const done = (name) => (step) => isAction(step) && step.name === name;
const response = (verb, status) => is({ kind: "response", lane: "deployments", verb, status });
const syncEnd = (result) => is({ kind: "syncEnd", result });
const writes = (step) => step.kind === "request" && step.lane && labState.isWrite(step);

// succeeded returns the steps without the acts and faults that failed: each of them has a step when it begins, and one with its error.
function succeeded(steps) {
  let failed = null;
  return steps.toReversed().filter((step) => {
    if (!isAction(step)) return true;
    const isKept = !step.error && step.name !== failed;
    failed = step.error ? step.name : null;
    return isKept;
  }).toReversed();
}

// inOrder returns the steps that match one after the other, or null if one is missing.
function inOrder(steps, ...matches) {
  const found = [];
  for (const step of steps) if (found.length < matches.length && matches[found.length](step)) found.push(step);
  return found.length === matches.length ? found : null;
}

// syncs returns the syncs that have started and ended, each with its requests other than events.
function syncs(steps) {
  const running = new Map(), ended = [];
  for (const step of steps) {
    const id = `${step.pod} ${step.key}`, sync = running.get(id);
    if (step.kind === "syncStart") running.set(id, { key: step.key, requests: [] });
    else if (sync && step.kind === "request" && step.resource !== "events") sync.requests.push(step);
    else if (sync && step.kind === "syncEnd") {
      ended.push({ ...sync, result: step.result });
      running.delete(id);
    }
  }
  return ended;
}

// isQueued reports whether a key waits or is delayed after the steps.
function isQueued(steps, key) {
  const { pods } = labState.apply(labState.initial(), steps.filter((step) => step.stop === "queue" && step.key === key));
  return [...pods.values()].some((pod) => pod.waiting.has(key) || pod.delayed.size > 0);
}

const isDone = {
  // The Deployment was created and is reported as available, and the key is not queued again.
  "first-life"(steps) {
    const found = inOrder(steps, done("create"), response("create", 201));
    if (!found) return false;
    const { key } = found[1];
    const isAvailable = (step) => is({ kind: "response", resource: "foos/status", key, status: 200 })(step) && step.raw.includes("DeploymentAvailable");
    let available = false;
    return steps.slice(steps.indexOf(found[1])).some((step) => {
      available ||= isAvailable(step);
      return available && is({ kind: "queueDone", key, merged: undefined })(step) && !isQueued(steps.slice(0, steps.indexOf(step) + 1), key);
    });
  },
  // There were more changes while the controller was frozen than patches after it was thawed.
  level(steps) {
    const [frozen, thawed] = inOrder(steps, is({ kind: "podFrozen" }), is({ kind: "podThawed" })) || [];
    if (!thawed) return false;
    const changes = steps.slice(steps.indexOf(frozen), steps.indexOf(thawed)).filter(done("scale")).length;
    let patches = 0; // until a sync has nothing to patch
    for (const { requests, result } of syncs(steps.slice(steps.indexOf(thawed)))) {
      const own = requests.filter(is({ verb: "patch", lane: "deployments" })).length;
      if (patches > 0 && own === 0 && result === "success") return changes >= 3 && patches < changes;
      patches += own;
    }
    return false;
  },
  tombstone: (steps) => inOrder(steps, done("cutWatch"), done("deleteDeployment"), done("healWatch"),
    is({ kind: "handler", eventType: "tombstone", lane: "deployments" })),
  // The next sync after a resync makes no request.
  resync: (steps) => steps.some((step, i) => {
    const next = is({ kind: "handler", eventType: "resync" })(step) && syncs(steps.slice(i)).find(({ key }) => key === step.key);
    return next && next.result === "success" && next.requests.length === 0;
  }),
  forget: (steps) => steps.some((step) => step.kind === "queueForget" && step.retries >= 5),
  // Many new Foos were all synced, and none of them was delayed by the rate limiter.
  limiters(steps) {
    const added = new Set(steps.filter(is({ kind: "queueAdd", why: "added" })).map(({ key }) => key));
    const synced = new Set(steps.filter(is({ kind: "syncEnd" })).map(({ key }) => key));
    return added.size >= 50 && [...added].every((key) => synced.has(key)) && !steps.some(is({ kind: "queueAddRateLimited" }));
  },
  "added-again": (steps) => steps.some((step, i) => is({ kind: "queueAdd", merged: "processing" })(step) && step.why.startsWith("spec") &&
    steps.slice(0, i).some(done("delayWrite")) && steps.slice(i).some(is({ kind: "queueDone", key: step.key, merged: "processing" }))),
  stale: (steps) => inOrder(steps, done("holdWatch"), writes, syncEnd("stale"), done("releaseWatch"), syncEnd("success")),
  // An injected 409 has a name.
  conflict: (steps) => inOrder(steps, (step) => response("patch", 409)(step) && !step.name, syncEnd("conflict"), response("patch", 200)),
  // The name may be freed before the sync that has found it taken has ended.
  name(steps) {
    const isTaken = is({ kind: "queueAddAfter", why: "ErrResourceExists" });
    const found = inOrder(steps, isTaken, done("deleteDeployment"), is({ kind: "handler", eventType: "delete", lane: "deployments" }), response("create", 201));
    return found && found[2].object === found[3].object;
  },
  killed(steps) {
    const found = inOrder(steps, done("killLeader"), is({ kind: "podExited" }), is({ kind: "leader" }));
    return found && found[1].pod !== found[2].pod;
  },
  // The frozen leader ended without a write after another one led.
  deposed(steps) {
    const [frozen, leader, exited] = inOrder(steps, is({ kind: "podFrozen" }), is({ kind: "leader" }), is({ kind: "podExited" })) || [];
    return exited && frozen.pod === exited.pod && leader.pod !== frozen.pod &&
      !steps.some((step) => writes(step) && step.pod === frozen.pod && step.seq > leader.seq);
  },
  garbage: (steps) => !steps.some((step) => writes(step) && step.verb === "delete") &&
    inOrder(steps, done("delete"), is({ kind: "stored", eventType: "DELETED", lane: "foos" }), is({ kind: "stored", eventType: "DELETED", lane: "deployments" })),
  permission(steps) {
    const succeeds = (step) => step.kind === "response" && step.lane === "deployments" && step.status < 300 && step.verb !== "get";
    const found = inOrder(steps, done("revoke"), is({ kind: "response", status: 403 }), done("grant"), succeeds);
    return found && found[1].key === found[3].key && found[1].verb === found[3].verb;
  },
};
export const checks = Object.fromEntries(Object.entries(isDone).map(([id, check]) => [id, (steps) => check(succeeded(steps))]));
