// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// What the picture shows, computed from nothing but the steps: apply(state, steps) changes a state by what they say, and returns it. It knows
// nothing of the page, so that it can be tested by itself.

export const lanes = ["foos", "deployments"];
const keptLoops = 200;
// Requests that say nothing about a sync: the election and the watches go on while nothing differs.
export const isBackground = (step) => step.resource === "leases" || step.verb === "list" || step.verb === "watch";
export const isWrite = (step) => ["create", "update", "patch", "delete"].includes(step.verb);
const laneOf = (step) => step.lane || lanes.find((lane) => (step.resource || "").split("/")[0] === lane);
const objectId = (step) => `${laneOf(step)}/${step.object}`;
const version = (resourceVersion) => Number(resourceVersion) || 0;
const ms = (time) => Date.parse(time);
export const matches = (step, values) => Object.entries(values).every(([name, value]) => step[name] === value);

const newLane = () => ({
  reflector: { phase: "none", events: 0 },
  fifo: [],
  objects: new Map(), // The Indexer: object -> resourceVersion.
  listed: new Map(), // What the list has so far that is being received.
  resourceVersion: 0,
  handler: null,
});

const newPod = (name) => ({
  name, state: "running", leader: false,
  lanes: Object.fromEntries(lanes.map((lane) => [lane, newLane()])),
  waiting: new Map(), delayed: new Map(), processing: new Map(),
  retries: new Map(), // What the rate limiter remembers: key -> failures.
  workers: [],
  open: new Map(), // Requests without a response: seq -> request.
  deleted: new Set(), // Objects that the pod has deleted: lane/object.
  requests: 0,
  quiet: { since: null, syncs: 0, resyncs: 0 },
});

export const initial = () => ({
  seq: 0, time: null, step: null,
  newest: { foos: 0, deployments: 0 }, // The newest resourceVersion that the API server has.
  stored: { foos: new Map(), deployments: new Map() },
  pods: new Map(),
  loops: new Map(), // Writes on their way back through the watch: lane/object@resourceVersion -> loop.
  faults: new Map(), // Those that last: name -> the step that injected it.
  act: null,
  leases: [], // The newest renewals: by which pod, at what time, and until when they last.
});

export function apply(state, steps) {
  for (const step of steps) applyStep(state, step);
  return state;
}

function applyStep(state, step) {
  state.seq = step.seq;
  state.time = ms(step.time);
  state.step = step;
  const lane = laneOf(step);
  if (step.pod && !state.pods.has(step.pod)) state.pods.set(step.pod, newPod(step.pod));
  const pod = state.pods.get(step.pod);
  const change = changes[step.kind];
  if (change) change({ state, step, pod, lane, cache: pod && lane && pod.lanes[lane] });
  follow(state, step, lane);
}

const setObject = (objects, step) => {
  if (isDeletion(step)) objects.delete(step.object);
  else objects.set(step.object, version(step.resourceVersion));
};
const isDeletion = (step) => ["DELETED", "Deleted", "delete", "tombstone"].includes(step.eventType);

// The steps say what the workqueue does with a key: queue.go has the only model of it. What follows adds up the changes of a key, and their reasons.

// add adds a key to those that wait for a worker, unless Done will.
function add(pod, step, why, changes = 1) {
  const processing = pod.processing.get(step.key);
  if (step.merged === "processing") {
    if (processing) Object.assign(processing, { again: processing.again + 1, reasons: withReason(processing, why) });
    return;
  }
  wait(pod, step, why, changes);
}

function wait(pod, step, why, changes) {
  const waiting = pod.waiting.get(step.key);
  const stays = waiting && step.merged === "waiting";
  if (!stays) pod.waiting.delete(step.key);
  pod.waiting.set(step.key, {
    key: step.key,
    priority: stays ? waiting.priority : step.priority,
    changes: (waiting ? waiting.changes : 0) + changes,
    reasons: withReason(waiting, why),
  });
}

const withReason = (item, why) => [...(item ? item.reasons : []), ...(why ? [why] : [])].slice(-5);
const withPriority = ({ key, priority }) => `${key} ${priority}`;

// delay adds a key to those that wait for a time.
function delay(pod, step) {
  const delayed = pod.delayed.get(withPriority(step));
  const due = ms(step.time) + 1000 * (step.delay || 0);
  pod.delayed.set(withPriority(step), {
    key: step.key,
    due: delayed && step.merged === "delayed" ? delayed.due : due,
    changes: (delayed ? delayed.changes : 0) + 1,
    reasons: withReason(delayed, step.why),
  });
}

const workerOf = (pod, step) => pod.workers.find((worker) => (step.worker ? worker.number === step.worker : worker.key === step.key));
function setWorker(pod, step, fields) {
  let worker = workerOf(pod, step);
  if (!worker) {
    if (!step.worker) return;
    worker = { number: step.worker, key: null, trail: [], last: null };
    pod.workers.push(worker);
    pod.workers.sort((a, b) => a.number - b.number);
  }
  Object.assign(worker, fields);
}

// Faults that last until others end them. A process is frozen until it is thawed or has ended.
const endedBy = {
  cutWatch: ["healWatch", "releaseWatch", "replicas"], holdWatch: ["healWatch", "releaseWatch", "replicas"], revoke: ["grant"], slow: ["slow"],
};

const changes = {
  variant({ state }) { // A scenario begins in a cluster without objects.
    const { newest, stored, loops } = initial();
    Object.assign(state, { newest, stored, loops });
  },

  stored({ state, step, lane }) {
    if (!lane) return;
    state.newest[lane] = Math.max(state.newest[lane], version(step.resourceVersion));
    setObject(state.stored[lane], step);
  },

  watchStart({ step, cache }) {
    cache.reflector.phase = step.eventType === "list" ? "listing" : "watching";
    cache.listed.clear();
  },
  listed({ state, step, cache, lane }) {
    cache.reflector.phase = "watching";
    for (const loop of state.loops.values()) { // The list has what was written before, or something newer.
      if (loop.pod === step.pod && loop.lane === lane && version(loop.resourceVersion) <= version(step.resourceVersion)) loop.event ??= step.seq;
    }
    state.newest[lane] = Math.max(state.newest[lane], version(step.resourceVersion));
  },
  watchEvent({ state, pod, step, cache, lane }) {
    cache.reflector.events++;
    if (step.merged === "list") cache.listed.set(step.object, version(step.resourceVersion));
    else cache.reflector.phase = "watching";
    if (step.eventType === "ADDED") pod.deleted.delete(objectId(step));
    state.newest[lane] = Math.max(state.newest[lane], version(step.resourceVersion));
  },
  bookmark({ cache, step }) {
    // A bookmark says that the watch has delivered everything up to this resourceVersion.
    if (cache.reflector.phase === "watching" && cache.fifo.length === 0) {
      cache.resourceVersion = Math.max(cache.resourceVersion, version(step.resourceVersion));
    }
  },
  watchEnd({ cache }) {
    cache.reflector.phase = "ended";
  },

  fifoPush({ cache, step }) {
    cache.fifo.push({ object: step.object, eventType: step.eventType, count: step.count });
  },
  fifoPop({ cache, step }) {
    const index = cache.fifo.findIndex((item) => item.object === step.object && item.eventType === step.eventType);
    if (index >= 0) cache.fifo.splice(index, 1);
  },
  indexerSet({ cache, step }) {
    setObject(cache.objects, step);
    cache.resourceVersion = Math.max(cache.resourceVersion, version(step.resourceVersion));
  },
  indexerReplaced({ cache, step }) {
    cache.objects = new Map(cache.listed);
    cache.resourceVersion = Math.max(cache.resourceVersion, version(step.resourceVersion));
  },

  handler({ cache, step }) {
    cache.handler = { object: step.object, eventType: step.eventType, resourceVersion: step.resourceVersion, seq: step.seq, decisions: [] };
  },
  notEnqueued({ pod, step }) {
    decide(pod, step, { queued: false, why: step.why });
  },

  queueAdd({ pod, step }) {
    decide(pod, step, { queued: true, key: step.key, why: step.why });
    add(pod, step, step.why);
  },
  queueAddAfter({ pod, step }) {
    if (!isByWorker(step)) decide(pod, step, { queued: true, key: step.key, why: step.why, delay: step.delay });
    delay(pod, step);
  },
  queueAddRateLimited({ pod, step }) {
    pod.retries.set(step.key, step.retries);
    delay(pod, step);
  },
  queueReady({ pod, step }) {
    const delayed = pod.delayed.get(withPriority(step));
    pod.delayed.delete(withPriority(step));
    add(pod, step, delayed?.reasons.at(-1), delayed?.changes);
  },
  queueGet({ pod, step }) {
    const waiting = pod.waiting.get(step.key);
    pod.waiting.delete(step.key);
    pod.processing.set(step.key, {
      key: step.key, worker: step.worker, again: 0, reasons: [], cause: waiting ? waiting.reasons.at(-1) : "",
    });
    setWorker(pod, step, { key: step.key, trail: [] });
  },
  queueForget({ pod, step }) {
    pod.retries.delete(step.key);
  },
  queueDone({ pod, step }) {
    const processing = pod.processing.get(step.key);
    pod.processing.delete(step.key);
    setWorker(pod, step, { key: null });
    if (step.merged === "processing") wait(pod, step, processing?.reasons.at(-1), processing?.again ?? 1);
  },

  workersStarted({ pod, step }) {
    pod.workers = Array.from({ length: step.count }, (_, i) => ({ number: i + 1, key: null, trail: [], last: null }));
  },
  workersStopped({ pod }) { // Running syncs end.
    pod.workers = pod.workers.filter((worker) => worker.key);
  },

  syncStart({ state, pod, step }) {
    const processing = pod.processing.get(step.key);
    // The first steps may be missing.
    if (![...state.pods.values()].some((other) => other.leader)) pod.leader = true;
    pod.quiet.syncs++;
    if (processing && processing.cause === "resync") pod.quiet.resyncs++;
    // A handler may have called Forget.
    if (step.retries) pod.retries.set(step.key, step.retries);
    else pod.retries.delete(step.key);
    setWorker(pod, step, { key: step.key, trail: [] });
  },
  sync({ pod, step }) {
    trail(pod, step, { result: step.result, what: step.what, lane: step.lane });
  },
  syncEnd({ pod, step }) {
    setWorker(pod, step, { last: { key: step.key, result: step.result, duration: step.duration } });
  },

  request({ pod, step }) {
    if (!pod) return;
    pod.open.set(step.seq, { verb: step.verb, resource: step.resource, object: step.object, key: step.key });
    if (isBackground(step)) return;
    pod.requests++;
    pod.quiet = { since: ms(step.time), syncs: 0, resyncs: 0 };
    if (step.key) trail(pod, step, { result: "request", what: `${step.verb} ${step.resource}` });
  },
  response: answered,
  noResponse: answered,

  act({ state, step }) {
    state.act = step;
  },
  fault({ state, step }) {
    for (const key of [...state.faults.keys()]) {
      if ((endedBy[key.split("/")[0]] || []).includes(step.name)) state.faults.delete(key);
    }
    const key = step.lane ? `${step.name}/${step.lane}` : step.name;
    const lasts = endedBy[step.name] && !step.error && !/^milliseconds 0$/.test(step.why || "");
    if (lasts) state.faults.set(key, step);
    else state.faults.delete(key);
  },
  faultsEnd({ state }) {
    state.faults.clear();
  },
  podStarted({ pod }) {
    Object.assign(pod, newPod(pod.name));
  },
  podExited({ state, pod }) {
    Object.assign(pod, newPod(pod.name), { state: "exited" });
    state.faults.delete(`freeze/${pod.name}`);
  },
  podFrozen({ state, pod, step }) {
    pod.state = "frozen";
    state.faults.set(`freeze/${pod.name}`, step);
  },
  podThawed({ state, pod }) {
    pod.state = "running";
    state.faults.delete(`freeze/${pod.name}`);
  },
  leader({ state, pod }) {
    for (const other of state.pods.values()) other.leader = other === pod;
  },
  notLeader({ pod }) {
    pod.leader = false;
  },
  lease({ state, step }) {
    const at = ms(step.time);
    state.leases = [...state.leases, { pod: step.pod, at, until: at + 1000 * (step.delay || 0) }].slice(-30);
  },
};

// answered ends a request. A response that was lost has no status.
function answered({ pod, step }) {
  if (!pod) return;
  const request = pod.open.get(step.request);
  pod.open.delete(step.request);
  if (isBackground(step)) return;
  if (step.verb === "delete" && step.status < 300) pod.deleted.add(objectId(step));
  pod.quiet.since = ms(step.time);
  const key = step.key || (request && request.key);
  const entry = { result: step.status < 300 ? "ok" : "refused", what: step.status ? String(step.status) : "no response" };
  if (key) trail(pod, { ...step, key }, entry);
}

function trail(pod, step, entry) {
  if (step.key) workerOf(pod, { key: step.key })?.trail.push(entry);
}

// isByWorker reports whether a worker adds the key that it processes, and not a handler.
const isByWorker = (step) => step.kind === "queueAddAfter" && !step.lane;

function decide(pod, step, decision) {
  const handler = pod.lanes[step.lane]?.handler;
  if (handler) handler.decisions = [...handler.decisions, decision].slice(-3);
}

// loopOfVersion returns the loop of a version of an object: the response to its write and its event, which may be faster, begin it.
function loopOfVersion(state, step, begins) {
  const id = `${step.pod}/${objectId(step)}@${step.resourceVersion}`;
  if (begins && !state.loops.has(id)) {
    state.loops.set(id, {});
    if (state.loops.size > keptLoops) state.loops.delete(state.loops.keys().next().value);
  }
  return state.loops.get(id);
}

// follow draws the loop of each write: its response, the event that the watch delivers, the Indexer, the handler, and the next sync. It
// ends with the handler if that does not queue the key.
function follow(state, step, lane) {
  if (step.kind === "response" && isWrite(step) && step.status < 300 && step.resourceVersion && lane) {
    Object.assign(loopOfVersion(state, step, true), {
      lane, resourceVersion: step.resourceVersion, verb: step.verb, resource: step.resource, pod: step.pod,
      request: step.request, response: step.seq,
    });
    return;
  }
  const stage = { watchEvent: "event", indexerSet: "indexer", handler: "handler" }[step.kind];
  if (stage && step.object && step.resourceVersion) {
    const loop = loopOfVersion(state, step, stage === "event");
    if (loop && !loop[stage]) loop[stage] = step.seq;
    return;
  }
  if (["queueAdd", "queueAddAfter", "notEnqueued"].includes(step.kind) && !isByWorker(step)) {
    for (const loop of state.loops.values()) {
      if (!loop.handler || loop.queue || loop.notQueued) continue;
      Object.assign(loop, step.kind === "notEnqueued" ? { notQueued: step.seq, why: step.why } : { queue: step.seq, key: step.key, queuePod: step.pod });
    }
  }
  if (step.kind === "syncStart" || step.kind === "syncEnd") {
    for (const loop of state.loops.values()) {
      if (loop.key !== step.key || loop.queuePod !== step.pod || loop.syncEnd) continue;
      if (step.kind === "syncStart" && !loop.sync) loop.sync = step.seq;
      if (step.kind === "syncEnd" && loop.sync) Object.assign(loop, { syncEnd: step.seq, result: step.result });
    }
  }
}

export const loops = (state) => [...state.loops.values()].filter((loop) => loop.response);
// loopOf returns the loop that a step is part of.
export const loopOf = (state, seq) => loops(state).find((loop) =>
  [loop.request, loop.response, loop.event, loop.indexer, loop.handler, loop.queue, loop.notQueued, loop.sync, loop.syncEnd].includes(seq));

// shown returns the name of the pod that is worth watching: the leader, or else one that runs.
export function shown(state) {
  const pods = [...state.pods.values()];
  const best = pods.find((pod) => pod.leader && pod.state === "running") || pods.find((pod) => pod.leader) ||
    pods.find((pod) => pod.state === "running") || pods[0];
  return best ? best.name : null;
}

// watchOf returns what a watch does: none, listing, watching or ended, or the fault that keeps events from it: cut or held.
export function watchOf(state, pod, lane) {
  const { phase } = pod.lanes[lane].reflector;
  if (phase === "none") return phase;
  return state.faults.has(`cutWatch/${lane}`) ? "cut" : state.faults.has(`holdWatch/${lane}`) ? "held" : phase;
}

export const isStale = (state, pod, lane) => pod.lanes[lane].resourceVersion < state.newest[lane];
export const isIdle = (pod) => pod.waiting.size + pod.processing.size + pod.delayed.size + pod.open.size === 0 &&
  lanes.every((lane) => pod.lanes[lane].fifo.length === 0);

// isEcho reports whether a step brings back a write of the controller: the response had its resourceVersion, or was to a deletion, or has
// not arrived yet.
export function isEcho(state, step) {
  const pod = state.pods.get(step.pod);
  if (!pod || !["watchEvent", "indexerSet"].includes(step.kind) || step.merged === "list") return false;
  return Boolean(loopOfVersion(state, step)?.response) || isDeletion(step) && pod.deleted.has(objectId(step)) ||
    [...pod.open].some(([seq, request]) => seq < step.seq && isWrite(request) && objectId(request) === objectId(step));
}

const seconds = (delay) => `${Number(delay.toPrecision(3))} s`;
export const short = (name) => (name || "").replace(/^default\//, "");

// travel returns what a step looks like on the picture: which token moves along which arrow, or that only a stop lights up.
export function travel(state, step) {
  const lane = laneOf(step);
  const at = (name) => `${name}-${lane}`;
  const echo = isEcho(state, step) ? "↺ " : "";
  const object = short(step.object), key = short(step.key);
  switch (step.kind) {
    case "stored": return { stop: "api-server" };
    case "watchStart": return { arrow: at("watch"), reverse: true, label: step.eventType === "list" ? "WATCH with all objects" : `WATCH from ${step.resourceVersion || "…"}` };
    case "listed": return { arrow: at("watch"), label: `all: ${step.count || 0}` };
    case "watchEvent": return { arrow: at("watch"), label: `${echo}${step.eventType} ${object}` };
    case "bookmark": return { arrow: at("watch"), label: `BOOKMARK ${step.resourceVersion}` };
    case "watchEnd": return { stop: at("reflector") };
    case "fifoPush": return { arrow: at("push"), label: step.object ? `${step.eventType} ${object}` : `${step.eventType} ${step.count || 0}` };
    case "fifoPop": return { stop: at("fifo") };
    case "indexerSet": return { arrow: at("set"), label: `${echo}${object} ${step.resourceVersion || ""}` };
    case "indexerReplaced": return { arrow: at("set"), label: `${step.count || 0} objects` };
    case "handler": return { arrow: at("call"), label: `${step.eventType} ${object}` };
    case "notEnqueued": return { stop: at("handler") };
    case "queueAdd": return { arrow: at("add"), label: key };
    case "queueAddAfter": return isByWorker(step) ? { arrow: "requeueAfter", label: `AddAfter ${seconds(step.delay)}` }
      : { arrow: at("addAfter"), label: `${key} in ${seconds(step.delay)}` };
    case "queueAddRateLimited": return { arrow: "requeue", label: `${key}: failure ${step.retries}` };
    case "queueReady": return { arrow: "ready", label: key };
    case "queueGet": return { arrow: "get", label: key };
    case "queueForget": return { arrow: "forget", label: "Forget" };
    case "queueDone": return { arrow: "done", label: step.merged === "processing" ? "Done: again" : "Done" };
    case "syncStart": case "syncEnd": case "workersStarted": case "workersStopped": return { stop: "worker" };
    case "sync": return ["read", "missing", "gone"].includes(step.result)
      ? { arrow: at("read"), label: step.result === "read" ? short(step.object || step.key) : "not found" } : { stop: "worker" };
    case "request": return isBackground(step) ? { stop: "api-server", quiet: true }
      : { arrow: "request", label: `${step.verb.toUpperCase()} ${step.resource} ${object}` };
    case "response": return isBackground(step) ? { stop: "api-server", quiet: true }
      : { arrow: "response", label: `${step.status}${step.resourceVersion ? ` rv ${step.resourceVersion}` : ""}` };
    case "noResponse": return { arrow: "response", label: "no response" };
    case "act": return { stop: "api-server" };
    case "lease": case "log": return { stop: "none", quiet: true };
    default: return { stop: { queue: "queue", worker: "worker", sync: "worker", request: "worker", response: "worker", "api-server": "api-server" }[step.stop] ||
      (lane && ["reflector", "fifo", "indexer", "handler"].includes(step.stop) ? at(step.stop) : "none") };
  }
}
