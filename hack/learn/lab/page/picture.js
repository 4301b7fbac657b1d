// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { byId, element, svg, update } from "./dom.js";
import * as labState from "./state.js";

// The picture: boxes for the stops, arrows between them, and tokens that travel along the arrows.

export class Picture {
  constructor(onSelect) {
    this.root = byId("picture");
    this.counts = new Map(); // Arrow -> steps that were shown together, and until when.
    this.lit = [];
    this.arrows = new Map();
    this.createArrows();
    const resized = new ResizeObserver(() => this.layOut());
    for (const box of [this.root, ...this.root.querySelectorAll(".stop, .cell")]) resized.observe(box);
    this.root.addEventListener("click", (event) => {
      const chip = event.target.closest("[data-key]");
      const stop = event.target.closest("[data-stop]");
      if (stop) onSelect({ stop: stop.dataset.stop, id: stop.id, key: chip ? chip.dataset.key : null });
    });
  }

  // Boxes.

  body(id, ...children) {
    update(byId(id).querySelector(".body"), children);
  }

  chip(key, label, { low = false, guess = false, title = key } = {}) {
    return element("button", { className: `chip${low ? " low" : ""}${guess ? " guess" : ""}${this.key === key ? " selected" : ""}`, data: { key }, title }, label);
  }

  // chips shows as many items as have room, and counts the rest.
  chips(items, limit, label, options = () => ({})) {
    const shown = items.length > limit ? items.slice(0, Math.max(1, limit - 1)) : items;
    return [
      ...shown.map((item) => this.chip(item.key, label(item), options(item))),
      ...(items.length > shown.length ? [element("span", { className: "more" }, `+ ${items.length - shown.length}`)] : []),
    ];
  }

  // rows shows at most two items, or one and how many more there are, one below the other.
  rows(items, label, options) {
    return this.chips(items, 2, label, options).map((item) => element("div", { className: "row" }, item));
  }

  draw(state, podName, now) {
    const pod = state.pods.get(podName);
    this.drawServer(state, pod);
    for (const lane of labState.lanes) this.drawLane(state, pod, lane);
    this.drawQueue(pod, now);
    this.drawWorkers(pod);
  }

  drawServer(state, pod) {
    const faults = [...state.faults.keys()];
    // Writes of this pod whose echo its watch has not delivered yet.
    const onTheWay = (lane) => labState.loops(state).filter((loop) => pod && loop.pod === pod.name && loop.lane === lane && !loop.event).map((loop) => loop.resourceVersion);
    this.body("api-server",
      labState.lanes.map((lane) => element("div", {},
        element("div", {}, `${lane === "foos" ? "Foos" : "Deployments"}: `, element("b", {}, String(state.stored[lane].size))),
        element("div", { className: "rv soft" }, "newest rv ", element("b", { id: `newest-${lane}` }, state.newest[lane] ? String(state.newest[lane]) : "–")),
        onTheWay(lane).length > 0 && element("div", { className: "soft", title: onTheWay(lane).join(", ") }, `↺ ${onTheWay(lane).length} own ${onTheWay(lane).length === 1 ? "write" : "writes"} not back yet`))),
      element("div", {},
        faults.map((fault) => element("div", { className: "badge alarm" }, fault)),
        state.act ? element("div", { title: state.act.raw || "" }, element("span", { className: "soft" }, "last act: "), state.act.what || state.act.name) : null,
        element("div", { className: "soft" }, pod ? `${pod.requests} requests of pod ${pod.name}` : "")));
  }

  drawLane(state, pod, lane) {
    const cache = pod && pod.lanes[lane];
    const events = cache ? cache.reflector.events : 0;
    const watching = cache ? labState.watchOf(state, pod, lane) : "none";
    const isCut = watching === "ended" || watching === "cut";
    this.body(`reflector-${lane}`, element("div", {}, {
      none: element("span", { className: "soft" }, "not started"),
      listing: "lists",
      watching: "watches",
      held: element("span", { className: "badge alarm" }, "events held"),
      cut: element("span", { className: "badge alarm" }, "watch cut"),
      ended: element("span", { className: "badge alarm" }, "watch ended"),
    }[watching]));
    byId(`reflector-${lane}`).querySelector("h2 span").textContent = cache ? `${events} events` : "";
    const fifo = cache ? cache.fifo : [];
    this.body(`fifo-${lane}`, fifo.length === 0 ? element("span", { className: "soft" }, "empty") : element("div", { className: "row" },
      this.chips(fifo.map((item) => ({ ...item, key: item.object || item.eventType })), 1,
        (item) => `${item.eventType} ${item.object ? brief(item.object) : item.count ?? ""}`, (item) => ({ guess: true, title: `${item.eventType} ${item.object || ""}` }))));
    const stale = cache ? labState.isStale(state, pod, lane) : false;
    const objects = cache ? cache.objects : new Map();
    this.body(`indexer-${lane}`, cache ? element("div", { className: "row" }, element("b", {}, String(objects.size)),
      this.chips([...objects].map(([key, resourceVersion]) => ({ key, resourceVersion })), 2,
        (item) => `${brief(item.key)} ${item.resourceVersion || ""}`, (item) => ({ title: `${item.key} ${item.resourceVersion || ""}` })))
      : element("span", { className: "soft" }, "empty"));
    byId(`cached-${lane}`).textContent = cache && cache.resourceVersion || "–";
    const light = byId(`light-${lane}`);
    light.hidden = !cache;
    light.className = `badge ${stale ? "alarm" : "soft"}`;
    light.textContent = stale ? "STALE" : "✓ current";
    byId(`of-${lane}`).textContent = stale ? ` of ${state.newest[lane]}` : "";
    const handler = cache && cache.handler;
    const isDeciding = handler && handler.seq === state.seq;
    this.body(`handler-${lane}`, handler ? [
      element("div", { title: handler.object }, element("b", {}, handler.eventType), ` ${brief(handler.object)}`,
        element("span", { className: "soft rv" }, ` rv ${handler.resourceVersion || "–"}`)),
      element("div", { title: (handler.decisions.at(-1) || {}).why }, handler.decisions.length ? decision(handler.decisions.at(-1)) : element("span", { className: "soft" }, isDeciding ? "decides …" : "∅ nothing queued")),
    ] : [element("div", { className: "soft" }, lane === "foos" ? "add, update, delete" : "add, update, delete, tombstone"), element("div", { className: "soft" }, "no event yet")]);
    const watch = this.arrows.get(`watch-${lane}`);
    watch.path.classList.toggle("cut", isCut || watching === "none" || watching === "held");
    watch.label.classList.toggle("alarm", isCut || watching === "held");
    watch.label.textContent = isCut ? `✕ watch ${watching}` : watching === "held" ? "✕ events held" : "WATCH";
  }

  drawQueue(pod, now) {
    const waiting = pod ? [...pod.waiting.values()] : [];
    const delayed = pod ? [...pod.delayed.values()].sort((a, b) => a.due - b.due) : [];
    const processing = pod ? [...pod.processing.values()] : [];
    const failures = pod ? [...pod.retries].map(([key, count]) => ({ key, count })) : [];
    const changes = waiting.reduce((sum, item) => sum + item.changes, 0);
    byId("queue-sum").textContent = pod && pod.state === "exited" ? "gone with the process" : !pod || (pod.workers.length === 0 && waiting.length === 0) ? "none on a standby"
      : waiting.length > 0 ? `${changes} ${changes === 1 ? "change" : "changes"}, ${waiting.length} ${waiting.length === 1 ? "key" : "keys"}`
        : "a key waits at most once";
    this.body("processing", processing.length === 0 ? element("span", { className: "soft" }, "none")
      : this.rows(processing, (item) => `${brief(item.key)} #${item.worker || "?"}${item.again > 0 ? " again" : ""}`, (item) => ({
        title: `${item.key}, worker ${item.worker || "?"}${item.again > 0 ? `; was added ${item.again} times while it is processed: Done queues it once` : ""}`,
      })));
    const row = (priority) => {
      const items = waiting.filter((item) => item.priority === priority);
      return element("div", { className: "row" }, element("span", { className: "label" }, priority),
        items.length === 0 ? element("span", { className: "soft" }, "–")
          : this.chips(items, 2, (item) => brief(item.key) + (item.changes > 1 ? ` ×${item.changes}` : ""),
            (item) => ({ low: priority === "low", title: `${item.key}: ${item.changes} changes, 1 key (${item.reasons.join("; ")})` })));
    };
    this.body("waiting", row("high"), row("low"));
    const left = (item) => Math.max(0, item.due - now) / 1000;
    const time = (s) => s >= 10 ? `${Math.round(s)} s` : s >= 0.1 ? `${s.toFixed(1)} s` : `${Math.round(1000 * s)} ms`;
    const text = (item) => `${brief(item.key)} in ${time(left(item))}${item.changes > 1 ? ` ×${item.changes}` : ""}`;
    this.body("delayed", delayed.length === 0 ? element("span", { className: "soft" }, "none")
      : this.rows(delayed, text, (item) => ({ title: `${item.key}: ${item.reasons.join("; ")}` })));
    this.body("limiter", failures.length === 0 ? element("span", { className: "soft" }, "no failures")
      : this.rows(failures, (item) => `${brief(item.key)} ×${item.count}`, (item) => ({ title: `${item.key}: ${item.count} failures so far` })));
  }

  drawWorkers(pod) {
    const workers = pod ? pod.workers : [];
    this.body("worker", workers.length === 0
      ? element("span", { className: "soft" }, pod && pod.state === "exited" ? "the process has ended" : "none: this pod does not lead")
      : [workers.slice(0, 3).map((worker) => this.drawWorker(worker)), workers.length > 3 && element("span", { className: "soft" }, `+ ${workers.length - 3} workers`)]);
  }

  drawWorker(worker) {
    const last = worker.last;
    // Both ends of what the sync has done so far.
    const trail = worker.key ? worker.trail.map((entry) => element("span", { title: entry.what }, middle(trailText(entry), 40))) : [];
    if (trail.length > 5) trail.splice(1, trail.length - 4, element("span", { title: `${trail.length - 4} further entries` }, "…"));
    return element("div", { className: "worker" },
      element("span", { className: "number" }, `#${worker.number}`),
      worker.key ? this.chip(worker.key, brief(worker.key)) : element("span", { className: "soft" }, "idle"),
      worker.key ? element("span", { className: "trail" }, trail)
        : element("span", { className: "soft trail" }, last ? element("span", {}, `last: ${brief(last.key)}, ${last.result}${last.duration ? `, ${Math.max(0.1, 1000 * last.duration).toFixed(last.duration < 0.1 ? 1 : 0)} ms` : ""}`) : ""));
  }

  // Arrows and tokens.

  createArrows() {
    const [paths, labels] = [svg("g", {}), svg("g", {})];
    const head = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" };
    byId("arrows").append(svg("defs", {}, svg("marker", { id: "head", ...head }, svg("path", { d: "M0,0.5 8,4 0,7.5z" }))), paths, labels);
    const create = (id, label = "", className = "") => {
      const arrow = { path: svg("path", { class: className, "marker-end": "url(#head)" }), label: svg("text", {}, label) };
      paths.append(arrow.path);
      labels.append(arrow.label);
      this.arrows.set(id, arrow);
    };
    for (const lane of labState.lanes) {
      create(`watch-${lane}`, "WATCH", "watch");
      create(`push-${lane}`);
      create(`set-${lane}`, "1");
      create(`call-${lane}`, "2");
      create(`read-${lane}`, lane === "foos" ? "lister reads" : "", "read");
      create(`addAfter-${lane}`, lane === "foos" ? "AddAfter" : "");
      create(`add-${lane}`, lane === "foos" ? "Add" : "");
    }
    create("get", "Get");
    create("take", "");
    create("done", "Done");
    create("ready", "due");
    create("retry", "");
    create("requeueAfter", "AddAfter");
    create("requeue", "AddRateLimited");
    create("forget", "Forget");
    create("request", "request");
    create("response", "response");
  }

  // layOut draws the arrows between the boxes as they are now.
  layOut() {
    const origin = this.root.getBoundingClientRect();
    const at = (id) => {
      const r = byId(id).getBoundingClientRect();
      const top = origin.top - this.root.scrollTop;
      const [l, t, right, b] = [r.left - origin.left, r.top - top, r.right - origin.left, r.bottom - top];
      return { l, t, r: right, b, x: (l + right) / 2, y: (t + b) / 2, w: right - l, h: b - t };
    };
    this.narrow = matchMedia("(max-width: 900px)").matches;
    const boxes = { api: at("api-server"), queue: at("queue"), worker: at("worker"), processing: at("processing"), waiting: at("waiting"), delayed: at("delayed"), limiter: at("limiter") };
    for (const lane of labState.lanes) for (const stop of ["reflector", "fifo", "indexer", "handler"]) boxes[`${stop}-${lane}`] = at(`${stop}-${lane}`);
    const width = this.root.clientWidth; // without a scrollbar
    for (const lane of labState.lanes) this.layOutLane(lane, boxes, width);
    this.layOutQueue(boxes);
    this.place("request", this.narrow
      ? [[boxes.worker.l, boxes.worker.y - 8], [8, boxes.worker.y - 8], [8, boxes.api.y - 6], [boxes.api.l, boxes.api.y - 6]]
      : [[boxes.worker.l, boxes.worker.y - 14], [boxes.api.r, boxes.worker.y - 14]], this.narrow ? null : [(boxes.worker.l + boxes.api.r) / 2, boxes.worker.y - 20]);
    this.place("response", this.narrow
      ? [[boxes.api.l, boxes.api.y + 2], [14, boxes.api.y + 2], [14, boxes.worker.y + 2], [boxes.worker.l, boxes.worker.y + 2]]
      : [[boxes.api.r, boxes.worker.y + 14], [boxes.worker.l, boxes.worker.y + 14]], this.narrow ? null : [(boxes.worker.l + boxes.api.r) / 2, boxes.worker.y + 28]);
  }

  layOutLane(lane, boxes, width) {
    const { api, waiting, delayed, worker } = boxes;
    const [reflector, fifo, indexer, handler] = ["reflector", "fifo", "indexer", "handler"].map((stop) => boxes[`${stop}-${lane}`]);
    if (!this.narrow) {
      this.place(`watch-${lane}`, [[api.r, reflector.y], [reflector.l, reflector.y]], [(api.r + reflector.l) / 2, reflector.y - 6]);
    } else if (lane === "foos") {
      this.place(`watch-${lane}`, [[reflector.x, api.b], [reflector.x, reflector.t]], [reflector.x, api.b + 13]);
    } else {
      this.place(`watch-${lane}`, [[api.l + 14, api.b], [api.l + 14, api.b + 13], [22, api.b + 13], [22, reflector.y], [reflector.l, reflector.y]]);
    }
    this.place(`push-${lane}`, [[reflector.r, reflector.y], [fifo.l, fifo.y]]);
    this.place(`set-${lane}`, [[fifo.r, fifo.y], [indexer.l, fifo.y]], [(fifo.r + indexer.l) / 2, fifo.y - 5]);
    this.place(`call-${lane}`, [[fifo.x, fifo.b], [fifo.x, handler.t]], [fifo.x + 10, (fifo.b + handler.t) / 2 + 4]);
    const bus = width - (this.narrow ? 18 : 28), reads = width - (this.narrow ? 8 : 11);
    const over = boxes.queue.t - 13;
    const label = (x) => lane === "foos" ? [x, over - 4] : null;
    this.place(`add-${lane}`, [[handler.r, handler.y], [bus, handler.y], [bus, over], [waiting.r - 22, over], [waiting.r - 22, waiting.t]], label(waiting.r + 4));
    this.place(`addAfter-${lane}`, this.narrow ? [[handler.r, handler.y], [bus, handler.y], [bus, delayed.y], [delayed.r, delayed.y]]
      : [[handler.r, handler.y], [bus, handler.y], [bus, over], [delayed.r - 22, over], [delayed.r - 22, delayed.t]], this.narrow ? null : label(delayed.r + 14));
    this.place(`read-${lane}`, [[indexer.r, indexer.y], [reads, indexer.y], [reads, worker.y], [worker.r, worker.y]],
      this.narrow ? null : [reads, (indexer.y + handler.b) / 2 + 8], 90);
  }

  layOutQueue({ processing, waiting, delayed, limiter, worker }) {
    const up = (id, box, offset, label) => this.place(id, [[box.x + offset, worker.t], [box.x + offset, box.b]], label);
    const under = (box) => (box.b + worker.t) / 2 + 6;
    this.place("get", [[waiting.l, waiting.y], [processing.r, processing.y]], [(waiting.l + processing.r) / 2, waiting.y - 5]);
    if (this.narrow) { // Processing and waiting are above the rate limiter and delayed.
      const side = processing.l;
      this.place("take", [[side, processing.y + 12], [side - 9, processing.y + 12], [side - 9, worker.t]], [side + 4, worker.t - 4]);
      this.place("done", [[side - 17, worker.t], [side - 17, processing.y - 4], [side, processing.y - 4]]);
      this.place("ready", [[delayed.x, delayed.t], [delayed.x, waiting.b]], [delayed.x + 16, (delayed.t + waiting.b) / 2 + 4]);
      this.place("retry", [[limiter.r, limiter.y], [delayed.l, delayed.y]]);
    } else {
      this.place("take", [[processing.x - 14, processing.b], [processing.x - 14, worker.t]], [processing.x - 30, under(processing)]);
      this.place("done", [[processing.x + 14, worker.t], [processing.x + 14, processing.b]], [processing.x + 34, under(processing)]);
      this.place("ready", [[delayed.l, delayed.y], [waiting.r, waiting.y]], [(delayed.l + waiting.r) / 2, waiting.y - 5]);
      this.place("retry", [[limiter.l, limiter.y], [delayed.r, delayed.y]]);
    }
    const [left, right] = this.narrow ? [-34, 28] : [-16, 20];
    up("requeueAfter", delayed, this.narrow ? 20 : 0, [delayed.x + (this.narrow ? 48 : -28), under(delayed)]);
    up("requeue", limiter, left, [limiter.x + (this.narrow ? -20 : -62), this.narrow ? worker.t - 16 : under(limiter)]);
    up("forget", limiter, right, [limiter.x + right + 22, this.narrow ? worker.t - 4 : under(limiter)]);
  }

  // place draws an arrow along points, and its label in the middle of a place.
  place(id, points, label, angle = 0) {
    const arrow = this.arrows.get(id);
    arrow.path.setAttribute("d", `M${points.join("L")}`);
    arrow.label.style.display = label ? "" : "none";
    if (label) {
      arrow.label.setAttribute("text-anchor", "middle");
      arrow.label.setAttribute("x", label[0]);
      arrow.label.setAttribute("y", label[1]);
      arrow.label.setAttribute("transform", angle ? `rotate(${angle} ${label})` : "");
    }
  }

  // light shows which stop and arrow a step concerns.
  light(...elements) {
    for (const old of this.lit) old.classList.remove("lit");
    this.lit = elements.filter(Boolean);
    for (const lit of this.lit) {
      lit.classList.add("lit");
      if (lit instanceof SVGElement) lit.parentNode.append(lit); // Some arrows share a part of their way.
    }
  }

  // show lights up what a step concerns, and returns its arrows.
  show(travel) {
    // Get leads through the items that are processed to a worker, and a retry through the rate limiter to the delayed items.
    const parts = { get: ["get", "take"], requeue: ["requeue", "retry"] }[travel.arrow] || [travel.arrow];
    const arrows = parts.map((id) => this.arrows.get(id)).filter(Boolean);
    this.light(travel.stop && byId(travel.stop), ...arrows.map((arrow) => arrow.path));
    return arrows;
  }

  // begin shows the token of a step at the start of its arrow.
  begin(step, travel) {
    this.end();
    if (travel.quiet) return;
    const arrows = this.show(travel);
    if (arrows.length === 0 || !travel.label) return;
    const text = travel.label.length > 34 ? travel.label.slice(0, 33) + "…" : travel.label;
    const width = 12 + text.length * 6.3;
    const group = svg("g", { class: `token ${step.source}` }, svg("rect", { x: -width / 2, y: -9, width, height: 18, rx: 9 }),
      svg("text", { "text-anchor": "middle", y: 4 }, text));
    byId("tokens").append(group);
    this.token = { group, width, arrows, reverse: travel.reverse, lengths: arrows.map((arrow) => arrow.path.getTotalLength()) };
    this.progress(0);
  }

  progress(part) {
    if (!this.token) return;
    const { group, arrows, lengths, width, reverse } = this.token;
    const total = lengths.reduce((sum, length) => sum + length, 0);
    const eased = part < 0.5 ? 2 * part * part : 1 - 2 * (1 - part) * (1 - part);
    let distance = (reverse ? 1 - eased : eased) * total;
    let index = 0;
    while (index < arrows.length - 1 && distance > lengths[index]) distance -= lengths[index++];
    const point = arrows[index].path.getPointAtLength(distance);
    const x = Math.min(Math.max(point.x, width / 2 + 2), this.root.clientWidth - width / 2 - 2);
    group.setAttribute("transform", `translate(${x},${point.y})`);
  }

  end() {
    if (this.token) this.token.group.remove();
    this.token = null;
  }

  // count shows how many steps went along each arrow, if several are shown together.
  count(travels, now) {
    this.light();
    for (const { arrow } of travels) {
      if (!arrow || !this.arrows.has(arrow)) continue;
      const count = this.counts.get(arrow) || { number: 0, text: svg("text", { class: "count", "text-anchor": "middle" }) };
      count.number++;
      count.until = now + 900;
      this.counts.set(arrow, count);
    }
    for (const [id, count] of this.counts) {
      const { path } = this.arrows.get(id);
      path.classList.add("busy");
      const point = path.getPointAtLength(path.getTotalLength() * (countAt[id] || 0.5));
      count.text.textContent = `×${count.number}`;
      count.text.setAttribute("x", point.x);
      count.text.setAttribute("y", point.y + 4);
      if (!count.text.parentNode) byId("tokens").append(count.text);
    }
  }

  expireCounts(now) {
    for (const [id, count] of this.counts) {
      if (now < count.until) continue;
      count.text.remove();
      this.arrows.get(id).path.classList.remove("busy");
      this.counts.delete(id);
    }
  }

  select(id, key) {
    for (const old of this.root.querySelectorAll(":is(.stop, .cell).selected")) old.classList.remove("selected");
    if (id && byId(id)) byId(id).classList.add("selected");
    this.key = key;
  }
}

// countAt is where on their way arrows have their count that share a part of it with others.
const countAt = { "add-foos": 0.2, "addAfter-foos": 0.35, "add-deployments": 0.8, "addAfter-deployments": 0.55, "read-foos": 0.25, "read-deployments": 0.4 };

// middle shortens a text by leaving out what is in its middle.
function middle(text, length) {
  const half = Math.floor((length - 1) / 2);
  return text.length > length ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
}

// brief is the name of an object where there is little room.
const brief = (name) => middle(labState.short(name), 20);

// decision says what a handler decided.
function decision({ queued, key, why, delay }) {
  if (!queued) return `∅ not queued: ${why || ""}`;
  return `→ ${brief(key)} queued${delay ? ` in ${delay} s` : ""}: ${why || ""}`;
}

// trailText says in a few words what a sync did.
function trailText({ result, what, lane }) {
  const kind = lane === "deployments" ? "Deployment" : "Foo";
  return {
    read: `read ${kind}`, missing: `no ${kind} cached`, gone: `no ${kind}`, same: "nothing differs", differs: what, status: what, written: what,
    request: what.toUpperCase().replace(/ (.*)/, (rest) => rest.toLowerCase()), ok: what, refused: `✕ ${what}`,
  }[result] || what || result;
}
