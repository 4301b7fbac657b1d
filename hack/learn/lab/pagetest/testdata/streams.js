// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { checks } from "../../page/checks.js";

// Streams of steps for the checks of the exercises.

const key = "default/a", object = key;
const did = (stop) => (name) => ({ stop, kind: stop, name });
const act = did("act"), fault = did("fault");
const ofPod = (kind, pod) => ({ stop: "fault", kind, pod });
const queue = (kind, values) => ({ stop: "queue", kind, key, pod: "a", ...values });
const starts = (key) => ({ kind: "syncStart", key, pod: "a" });
const ends = (result, error = "", key = object) => ({ kind: "syncEnd", key, pod: "a", result, error });
const handles = (lane, eventType) => ({ kind: "handler", lane, eventType, key, object });
const requests = (verb, lane) => ({ kind: "request", verb, lane, resource: lane, key, pod: "a" });
const responds = (verb, status, values) => ({ kind: "response", verb, lane: "deployments", status, key, object, ...values });
const updatesStatus = (status, raw) => ({ kind: "response", verb: "update", resource: "foos/status", lane: "foos", status, key, raw });
const stores = (lane, eventType = "DELETED") => ({ kind: "stored", eventType, lane });

// Those that pass, in which every step is necessary.
const passing = {
  "first-life": [act("create"), responds("create", 201), updatesStatus(200, "DeploymentAvailable"), queue("queueDone")],
  level: [ofPod("podFrozen", "a"), act("scale"), act("scale"), act("scale"), ofPod("podThawed", "a"),
    starts(key), requests("patch", "deployments"), ends("success"), starts(key), ends("success")],
  tombstone: [fault("cutWatch"), act("deleteDeployment"), fault("healWatch"), handles("deployments", "tombstone")],
  resync: [handles("foos", "resync"), starts(key), ends("success")],
  forget: [queue("queueForget", { retries: 5 })],
  "added-again": [fault("delayWrite"), queue("queueAdd", { merged: "processing", why: "spec changed" }), queue("queueDone", { merged: "processing" })],
  stale: [fault("holdWatch"), requests("patch", "deployments"), ends("stale"), fault("releaseWatch"), ends("success")],
  conflict: [responds("patch", 409), ends("conflict"), responds("patch", 200)],
  name: [queue("queueAddAfter", { why: "ErrResourceExists" }), act("deleteDeployment"), handles("deployments", "delete"), responds("create", 201)],
  killed: [fault("killLeader"), ofPod("podExited", "a"), ofPod("leader", "b")],
  deposed: [ofPod("podFrozen", "a"), ofPod("leader", "b"), ofPod("podExited", "a")],
  garbage: [act("delete"), stores("foos"), stores("deployments")],
  permission: [fault("revoke"), responds("create", 403), fault("grant"), responds("create", 201)],
  limiters: Array.from({ length: 50 }, (_, n) => `default/many-${n}`).flatMap((key) => [queue("queueAdd", { key, why: "added" }), ends("success", "", key)]),
};

// replaced returns the stream that passes with other steps from an index on, and inserted with further ones there.
const replaced = (id, at, ...steps) => passing[id].toSpliced(at, steps.length, ...steps);
const inserted = (id, at, ...steps) => passing[id].toSpliced(at, 0, ...steps);

// Those that differ in one thing that must not be, or must not be so.
const failing = {
  "first-life": {
    "the key is delayed": inserted("first-life", 3, queue("queueAddAfter")),
    "the key waits": inserted("first-life", 1, queue("queueAdd")),
    "Done queues it again": replaced("first-life", 3, queue("queueDone", { merged: "processing" })),
    "another Foo is left idle": replaced("first-life", 3, queue("queueDone", { key: "default/b" })),
    "it is not available": replaced("first-life", 2, updatesStatus(200, "DeploymentProgressing")),
    "the status is not stored": replaced("first-life", 2, updatesStatus(500, "DeploymentAvailable")),
    "create fails": inserted("first-life", 1, { ...act("create"), error: "exists" }),
    "the Deployment comes later": [act("create"), updatesStatus(200, "DeploymentAvailable"), responds("create", 201), queue("queueDone")],
  },
  level: {
    "a patch for each change": inserted("level", 7, requests("patch", "deployments"), requests("patch", "deployments")),
    "one change before the freeze": replaced("level", 0, act("scale"), ofPod("podFrozen", "a")),
    "one change after the thaw": replaced("level", 3, ofPod("podThawed", "a"), act("scale")),
    "the patch before the freeze": [...passing.level.slice(5), ...passing.level.slice(0, 5)],
    "a patch of something else": replaced("level", 6, requests("patch", "foos")),
    "no sync has nothing to patch": replaced("level", 9, ends("error")),
  },
  tombstone: {
    "an event": replaced("tombstone", 3, handles("deployments", "delete")),
    "a tombstone of the Foo": replaced("tombstone", 3, handles("foos", "tombstone")),
    "the deletion before the cut": [act("deleteDeployment"), fault("cutWatch"), fault("healWatch"), handles("deployments", "tombstone")],
  },
  resync: {
    "a request": inserted("resync", 2, requests("get", "foos")),
    "a failure": replaced("resync", 2, ends("stale")),
    "a sync of another": [handles("foos", "resync"), starts("default/b"), ends("success", "", "default/b")],
    "an update": replaced("resync", 0, handles("foos", "update")),
    "the sync was before": [starts(key), ends("success"), handles("foos", "resync")],
  },
  forget: { "too few": [queue("queueForget", { retries: 4 })] },
  limiters: { "one is delayed": [queue("queueAddRateLimited", { key: "default/many-1" }), ...passing.limiters] },
  "added-again": {
    "a rollout": replaced("added-again", 1, queue("queueAdd", { merged: "processing", why: "rollout" })),
    "it waits": replaced("added-again", 1, queue("queueAdd", { merged: "waiting", why: "spec changed" })),
    "Done of another": replaced("added-again", 2, queue("queueDone", { merged: "processing", key: "default/b" })),
    "Done queues nothing": replaced("added-again", 2, queue("queueDone")),
    "before the write is slow": [passing["added-again"][1], fault("delayWrite"), passing["added-again"][2]],
  },
  stale: {
    "stale to the end": replaced("stale", 4, ends("stale")),
    "a failure": replaced("stale", 2, ends("error")),
    "only reads": replaced("stale", 1, requests("get", "deployments")),
    "success when held": [fault("holdWatch"), requests("patch", "deployments"), ends("stale"), ends("success"), fault("releaseWatch")],
    "an event is written": replaced("stale", 1, { kind: "request", verb: "create", resource: "events" }),
  },
  conflict: {
    "it was injected": replaced("conflict", 0, responds("patch", 409, { name: "failWrite" })),
    "the name is taken": replaced("conflict", 0, responds("create", 409)),
    "it is about the status": replaced("conflict", 0, responds("patch", 409, { lane: "foos" })),
    "the sync counts as error": replaced("conflict", 1, ends("error")),
    "no patch succeeds": replaced("conflict", 2, responds("patch", 409)),
  },
  name: {
    "another Deployment is created": replaced("name", 3, responds("create", 201, { object: "default/other" })),
    "the Foo is deleted": replaced("name", 2, handles("foos", "delete")),
    "it fails again": replaced("name", 3, responds("create", 409)),
    "another rejection": replaced("name", 0, queue("queueAddAfter", { why: "DeploymentRejected" })),
    "a failure": replaced("name", 0, queue("queueAddRateLimited", { why: "ErrResourceExists" })),
    "no handler is called for it": replaced("name", 2, handles("deployments", "update")),
  },
  killed: { "it leads again itself": replaced("killed", 2, ofPod("leader", "a")) },
  deposed: {
    "it writes": inserted("deposed", 2, requests("patch", "deployments")),
    "the new leader ends": replaced("deposed", 2, ofPod("podExited", "b")),
    "nobody else has led": replaced("deposed", 1, ofPod("leader", "a")),
    "the standby is frozen": [ofPod("podFrozen", "b"), ofPod("leader", "b"), ofPod("podExited", "a")],
  },
  garbage: {
    "the controller deletes it": inserted("garbage", 2, requests("delete", "deployments")),
    "it is deleted before": [act("delete"), stores("deployments"), stores("foos")],
    "it is changed, not deleted": replaced("garbage", 2, stores("deployments", "MODIFIED")),
  },
  permission: {
    "another verb succeeds": replaced("permission", 3, responds("patch", 200)),
    "another Foo succeeds": replaced("permission", 3, responds("create", 201, { key: "default/b" })),
    "another error": replaced("permission", 1, responds("create", 500)),
    "before it is granted": [fault("revoke"), responds("create", 403), responds("create", 201), fault("grant")],
    "forbidden again": replaced("permission", 3, responds("create", 403)),
  },
};

// mistakes returns what is wrong with the check of an exercise.
export function mistakes(id) {
  const numbered = (steps) => steps.map((step, index) => ({ ...step, seq: index + 1, time: new Date(index).toISOString() }));
  const passes = (steps) => Boolean(checks[id](numbered(steps)));
  const stream = passing[id];
  const among = stream.flatMap((step) => [step, { kind: "request", verb: "create", resource: "events", key, pod: "a" }, responds("get", 200)]);
  return [
    !passes(stream) && "it does not pass",
    !passes(among) && "it does not pass among events and live reads",
    ...stream.map((_, end) => passes(stream.slice(0, end)) && `it passes after ${end} steps already`),
    ...stream.map((step, i) => passes(stream.toSpliced(i, 1)) && `it passes without ${JSON.stringify(step)}`),
    ...Object.entries(failing[id]).map(([name, steps]) => passes(steps) && `it passes: ${name}`),
  ].filter(Boolean);
}
