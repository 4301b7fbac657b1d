// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { Cluster } from "./cluster.js";
import { byId, element, update } from "./dom.js";
import * as glossary from "./glossary.js";
import { Actions, Detail, Exercises, StepList } from "./panels.js";
import { Picture } from "./picture.js";
import { drawLease } from "./pictures.js";
import { Player } from "./player.js";
import * as labState from "./state.js";
import { Tour } from "./tour.js";
import { Variants } from "./variants.js";
import { seconds, sentence } from "./words.js";

// The page: steps come from the cluster or from a recording, and are shown by the player.

let lab = null; // The state of the cluster; null without one.
let liveSteps = [];
let chosenPod = null;
let recordingName = "";
let redrawAt = 0;
let leaseDrawnAt = 0;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

const picture = new Picture((selection) => {
  const isSame = detail.selected && detail.selected.id === selection.id && detail.selected.key === selection.key;
  detail.select(isSame ? null : selection);
});
// travel is the way of a step on the picture, which shows one pod.
const travel = (state, step) => step.pod && step.pod !== shownPod() && step.stop !== "fault" ? { stop: "none", quiet: true } : labState.travel(state, step);
const player = new Player({
  travel,
  now: () => cluster.now(),
  stopsBefore: (step) => player.live && tour.stopsBefore(step),
  onStep(step, way) {
    picture.begin(step, reducedMotion.matches ? { ...way, label: "" } : way);
    if (step.kind === "leader") chosenPod = null; // A new leader is shown, whichever pod was chosen.
    caption(step);
    list.draw();
    detail.draw(player.state, player.state.pods.get(shownPod()));
  },
  onProgress: (part) => picture.progress(part),
  onState(state, steps, ways) {
    picture.end();
    if (steps.length === 0 && state.step) picture.show(travel(state, state.step));
    if (ways) picture.count(ways, performance.now());
    list.current = null;
    caption(state.step);
    // While there is much to show, what takes long to draw is drawn less often.
    const now = performance.now();
    if (ways && player.behind > 0 && now < redrawAt) {
      picture.draw(state, shownPod(), player.clock(now));
      return;
    }
    redrawAt = now + 250;
    redraw();
  },
});
const list = new StepList(player, (seq) => go(seq));
const detail = new Detail({ player, onGo: go, onChange: redraw });
const actions = new Actions((path, body) => {
  if (!player.live) goLive(); // Whoever acts wants to see what follows.
  return post(path, body);
});
const cluster = new Cluster({
  onFailed: fail,
  onProgress(part) {
    lab = { phase: "loading", progress: part };
    drawBar();
  },
  onState(state) {
    const isFirst = lab.phase !== "live";
    lab = { ...state, phase: "live", canBuild: cluster.canBuild };
    if (isFirst) goLive();
    redraw();
  },
  onSteps(steps) {
    liveSteps = liveSteps.concat(steps).slice(-Player.keep / 2);
    exercises.receive(steps);
    variants.draw(lab);
    if (!player.live) return;
    player.append(steps);
    // The first visit begins with the tour, once the controller has workers.
    if (steps.some(({ kind }) => kind === "leader") && !localStorage.getItem("visited")) {
      localStorage.setItem("visited", "yes");
      tour.begin(0);
    }
  },
});
const exercises = new Exercises({
  post: (path, body) => cluster.post(path, body), onChange: redraw, onGo: go,
  onVariant(id) {
    byId("tab-variants").click();
    variants.show(id);
  },
});
const tour = new Tour({ post, stop: (atEnd) => { if (atEnd) player.seek(player.steps.length); pause(); redraw(); }, goOn: () => { play(); redraw(); } });
const recorded = new Map(); // The recorded scenarios of variants: ID -> steps.
async function loadScenario(id) {
  const steps = recorded.get(id) || await load(`variants/${id}.jsonl`);
  if (steps.length > 0) recorded.set(id, steps); // Otherwise, the next time may succeed.
}
const playScenario = (id) => recorded.has(id) && player.steps !== recorded.get(id) && show(recorded.get(id), id);
const variants = new Variants({
  cluster, live: () => liveSteps, onChange: () => redraw(),
  stepsOf: (id) => variants.state && variants.state.id === id ? liveSteps : recorded.get(id) || [],
  async onShow(id) {
    if (!cluster.canBuild) await loadScenario(id); // Otherwise the server has to make the recording first.
    redraw();
  },
  async onPlay(id) {
    await loadScenario(id);
    playScenario(id);
  },
  onGo(id, seq) {
    if (!variants.state || variants.state.id !== id) playScenario(id);
    else if (!player.live) goLive();
    go(seq);
  },
});

// shownPod is the name of the pod in the picture: the one that was chosen, or else the leader.
const shownPod = () => player.state.pods.has(chosenPod) ? chosenPod : labState.shown(player.state);

function redraw() {
  const now = performance.now();
  const { state } = player;
  const name = shownPod();
  picture.select(detail.selected && detail.selected.id, detail.selected && detail.selected.key);
  picture.draw(state, name, player.clock(now));
  detail.draw(state, state.pods.get(name));
  list.draw();
  drawBar();
  actions.draw(lab, state.faults);
  exercises.draw(lab && lab.phase === "live" ? lab : null);
  variants.draw(lab);
}

// go shows the state right after a step, and the step in the details.
function go(seq) {
  const index = player.steps.findIndex((step) => step.seq === seq);
  if (index < 0) return;
  pause();
  player.seek(index + 1);
  list.current = seq;
  detail.select({ seq, stop: player.steps[index].stop });
}

function caption(step) {
  if (step) byId("caption").replaceChildren(...sentence(player.state, step));
}

// quiet says that nothing differs, once nothing has happened for a while.
function quiet(now) {
  const pod = player.state.pods.get(shownPod());
  if (!pod || !player.playing || player.moving || !labState.isIdle(pod) || pod.workers.length === 0) return;
  const clock = player.clock(now);
  const since = pod.quiet.since || null;
  if (since === null || clock - Math.max(since, player.state.time) < (player.live ? 1500 : 300) || clock - since < 1500) return;
  const { syncs, resyncs } = pod.quiet;
  const text = `No request for ${seconds(clock - since)} (since then ${syncs} ${syncs === 1 ? "sync" : "syncs"}, of which ${resyncs} by a resync, ` +
    "and 0 requests; watches and Lease aside).";
  if (!byId("caption").textContent.endsWith(text)) byId("caption").replaceChildren(element("b", {}, "Idle: nothing differs. "), text);
}

function drawBar() {
  const { live, playing, behind } = player;
  const text = live ? (playing ? (behind > 3 ? `● live, ${behind} to show` : "● live") : `‖ paused, ${behind} behind`)
    : player.steps.length === 0 ? "○" : `▷ recording${recordingName ? ` ${recordingName}` : ""}`;
  Object.assign(byId("mode"), { textContent: text, title: text });
  for (const id of ["reset", "guide"]) byId(id).hidden = !lab || lab.phase !== "live";
  byId("progress").hidden = !lab || lab.phase === "live";
  if (lab && lab.phase === "loading") byId("progress").replaceChildren("Loading the controller and its cluster: ", element("progress", { value: lab.progress }));
  if (lab && lab.phase === "failed") byId("progress").textContent = `${lab.error} This is a recording.`;
  byId("play").textContent = playing ? "‖ pause" : "▷ play";
  const canGoLive = lab && lab.phase === "live" && !live;
  byId("now").hidden = !(canGoLive || live && behind > 3);
  byId("now").textContent = canGoLive ? "go live" : "to now";
  byId("now").classList.toggle("primary", Boolean(canGoLive));
  byId("back").disabled = player.position === 0;
  byId("forward").disabled = behind === 0 && !live;
  const at = byId("at");
  at.max = player.steps.length;
  at.value = player.position;
  drawPods();
}

function drawPods() {
  const pods = [...player.state.pods.values()].sort((a, b) => a.name.localeCompare(b.name));
  update(byId("pods"), pods.map((pod) => {
    const role = pod.state === "exited" ? "✕ ended" : pod.state === "frozen" ? "❄ frozen" : pod.leader ? "● leader" : "○ standby";
    return element("button", { "aria-pressed": String(pod.name === shownPod()), data: { pod: pod.name, state: pod.state, leader: String(pod.leader) }, title: "Show this pod",
      onclick: () => { chosenPod = pod.name; redraw(); } }, `pod ${pod.name}: ${role}`);
  }));
}

// post makes the cluster do something, unless a scenario is played, which does so itself.
async function post(path, body) {
  if (variants.isPlaying) return { error: "The scenario of a variant is being played." };
  if (path === "reset") variants.leave();
  return cluster.post(path, body);
}

// reset reports whether the cluster was reset.
async function reset() {
  const { error } = await post("reset", {});
  if (error) byId("caption").textContent = `✕ ${error}`;
  return !error;
}

// Sources of steps.

const parse = (text) => text.split("\n").filter((line) => line.trim() !== "").map((line) => JSON.parse(line));

// read returns the steps of a file: a recording of the lab, or one of a walk of the simulation, whose steps the API server infers.
async function read(file) {
  const text = await file.text();
  const lines = parse(text);
  if (lines.every(({ seq }) => seq)) return lines;
  if (!lab || lab.phase !== "live") throw new Error("the recording of a walk needs the live lab.");
  const { steps, error } = await cluster.post("walk", { text });
  if (error) throw new Error(error);
  return steps;
}

// load returns the steps of a recording, which a server may have to make first.
async function load(address) {
  const response = await fetch(address);
  const text = await response.text();
  if (response.ok) return parse(text);
  byId("caption").textContent = `${address}: ${text}`;
  return [];
}

// show plays the steps of a recording with a name, or live ones.
function show(steps, name, live = false) {
  recordingName = name;
  chosenPod = null;
  player.load(steps, live);
  player.play();
}

const goLive = () => show(liveSteps, "", true);

async function startCluster() {
  lab = { phase: "loading", progress: 0 };
  try {
    if (new URLSearchParams(location.search).has("recording")) throw new Error("");
    if (Cluster.unsupported) throw new Error(Cluster.unsupported);
    await cluster.start();
  } catch (error) {
    await fail(error.message);
  }
  redraw();
}

// fail says why there is no live lab, and plays the recording.
async function fail(why) {
  lab = { phase: "failed", error: why };
  redraw();
  show(await load("recording.jsonl"), "");
  redraw();
}

function pauseCluster() {
  if (player.live && cluster.isRunning) cluster.pause();
}

function pause() {
  player.pause();
  pauseCluster();
}

function play() {
  player.play();
  if (player.live) cluster.resume();
}

// Controls.

const controls = {
  // What is shown and the cluster stand still together.
  play() {
    if (player.playing) pause();
    else play();
  },
  back() {
    pauseCluster();
    player.back();
  },
  forward() {
    if (player.live && player.behind === 0 && !player.moving) {
      player.play();
      cluster.step();
    } else {
      pauseCluster();
      player.forward();
    }
  },
  now() {
    if (!player.live) goLive();
    player.seek(player.steps.length);
    play();
  },
  reset,
  async guide() {
    if (!await reset()) return;
    goLive();
    play();
    tour.begin(0);
  },
  open: () => byId("file").click(),
  save: () => {
    const lines = player.steps.map(({ at, ...step }) => JSON.stringify(step) + "\n");
    const link = element("a", { href: URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" })), download: "lab-recording.jsonl" });
    link.click();
    URL.revokeObjectURL(link.href);
  },
};
for (const [id, control] of Object.entries(controls)) {
  byId(id).addEventListener("click", () => {
    control();
    redraw();
  });
}
byId("speed").addEventListener("change", (event) => {
  player.speed = Number(event.target.value);
  if (player.live) cluster.changeSpeed(player.speed);
});
byId("at").addEventListener("input", (event) => {
  pause();
  player.seek(Number(event.target.value));
});
byId("file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  try {
    show(await read(file), file.name);
  } catch (error) {
    byId("caption").textContent = `${file.name} cannot be opened: ${error.message}`;
  }
  event.target.value = "";
});
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", String(other === tab));
      byId(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    variants.draw(lab);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const control = { ArrowLeft: "back", ArrowRight: "forward", " ": "play" }[event.key];
  if (event.key === " " && event.target.matches("button")) return;
  if (control) {
    event.preventDefault();
    controls[control]();
    redraw();
  }
  if (event.key === "Escape") detail.select(null);
});

function frame(now) {
  player.frame(now);
  picture.expireCounts(now);
  const pod = player.state.pods.get(shownPod());
  if (pod && pod.delayed.size > 0) picture.drawQueue(pod, player.clock(now));
  quiet(now);
  if (now - leaseDrawnAt > 100) {
    leaseDrawnAt = now;
    drawLease(player.state, player.clock(now));
  }
  requestAnimationFrame(frame);
}

for (const [name, panel] of [["exercises", exercises], ["variants", variants]]) {
  fetch(`${name}.json`).then((response) => response.json()).then((all) => { panel.load(all); redraw(); });
}
for (const name of ["client-go", "production"]) {
  fetch(`docs/reference/${name}.html`).then(async (response) => { glossary.load(await response.text(), response.url); redraw(); });
}
startCluster();
redraw();
requestAnimationFrame(frame);

// For tests: what the page shows.
window.lab = { player, cluster, tour, variants, get state() { return player.state; }, get shownPod() { return shownPod(); }, go };
