// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// The page: steps come from the live lab, from a file, or from within the page, and are shown by the player.
(() => {
  "use strict";

  let lab = null; // GET /state; null without a server.
  let liveSteps = [];
  let chosenPod = null;
  let recordingName = "";
  let redrawAt = 0;
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  const picture = new Picture((selection) => {
    const isSame = detail.selected && detail.selected.id === selection.id && detail.selected.key === selection.key;
    detail.select(isSame ? null : selection);
  });
  // travel is the way of a step on the picture, which shows one pod.
  const travel = (state, step) => step.pod && step.pod !== shownPod() && step.stop !== "fault" ? { stop: "none", quiet: true } : labState.travel(state, step);
  const player = new Player({
    travel,
    onStep(step, way) {
      picture.begin(step, reducedMotion.matches ? { ...way, label: "" } : way);
      follow(step);
      caption(step);
      list.draw();
      detail.draw(player.state, player.state.pods.get(shownPod()));
    },
    onProgress: (part) => picture.progress(part),
    onState(state, steps, together, before) {
      picture.end();
      if (steps.length === 0 && state.step) picture.show(travel(state, state.step));
      if (together) picture.count(steps.map((step) => travel(before, step)), performance.now());
      list.current = null;
      caption(state.step);
      // While there is much to show, what takes long to draw is drawn less often.
      const now = performance.now();
      if (together && player.behind > 0 && now < redrawAt) {
        picture.draw(state, shownPod(), player.clock(now));
        return;
      }
      redrawAt = now + 250;
      redraw();
    },
  });
  const list = new StepList(player, (seq) => go(seq));
  const detail = new Detail(player, (seq) => go(seq));
  detail.onChange = () => redraw();
  const actions = new Actions((path, body) => {
    if (!player.live) goLive(); // Whoever acts wants to see what follows.
    return post(path, body);
  });
  const exercises = new Exercises(post);
  exercises.onChange = () => redraw();
  exercises.onGo = (seq) => go(seq);

  exercises.onVariant = (id) => {
    byId("tab-variants").click();
    variants.show(id);
  };
  const recorded = new Map(); // The recorded scenarios of variants: ID -> steps.
  const playScenario = (id) => recorded.has(id) && player.steps !== recorded.get(id) && playRecording(recorded.get(id), id);
  const variants = new Variants({
    post,
    onChange: () => redraw(),
    stepsOf: (id) => recorded.get(id) || liveSteps,
    onPlay(id) {
      playScenario(id);
      redraw();
    },
    onGo(id, seq) {
      if (lab && !player.live) goLive();
      playScenario(id);
      go(seq);
    },
  });

  // shownPod is the name of the pod in the picture: the one that was chosen, or else the leader.
  const shownPod = () => player.state.pods.has(chosenPod) ? chosenPod : labState.shown(player.state);

  // follow shows the pod that a leader's step concerns, unless a pod was chosen.
  function follow(step) {
    if (step.kind === "leader") chosenPod = null;
  }

  function redraw() {
    const now = performance.now();
    const { state } = player;
    const name = shownPod();
    picture.select(detail.selected && detail.selected.id, detail.selected && detail.selected.key);
    picture.draw(state, name, player.clock(now));
    detail.draw(state, state.pods.get(name));
    list.draw();
    drawBar();
    actions.draw(lab);
    exercises.draw(lab);
    variants.draw(lab);
  }

  // go shows the state right after a step, and the step in the details.
  function go(seq) {
    const index = player.steps.findIndex((step) => step.seq === seq);
    if (index < 0) return;
    player.pause();
    player.seek(index + 1);
    list.current = seq;
    detail.select({ seq, stop: player.steps[index].stop });
  }

  function caption(step) {
    if (step) byId("caption").replaceChildren(...sentence(step, player.state.pods.size > 1));
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
    byId("mode").textContent = text;
    byId("progress").hidden = !lab || lab.phase === "live";
    if (lab) byId("progress").textContent = `${{ building: "The local Kubernetes is being built:", starting: "The lab starts:", failed: "The lab has failed:" }[lab.phase] || ""} ${lab.progress || lab.error || ""}`;
    byId("play").textContent = playing ? "‖ pause" : "▷ play";
    const canGoLive = lab && lab.phase === "live" && !live;
    byId("now").hidden = !(canGoLive || live && behind > 3);
    byId("now").textContent = canGoLive ? "go live" : "to now";
    byId("now").classList.toggle("primary", Boolean(canGoLive));
    byId("back").disabled = player.position === 0;
    byId("forward").disabled = behind === 0;
    const at = byId("at");
    at.max = player.steps.length;
    at.value = player.position;
    drawPods();
  }

  function drawPods() {
    const pods = [...player.state.pods.values()].sort((a, b) => a.name.localeCompare(b.name));
    const signature = JSON.stringify([pods.map((pod) => [pod.name, pod.state, pod.leader]), shownPod()]);
    if (byId("pods").dataset.drawn === signature) return;
    byId("pods").dataset.drawn = signature;
    byId("pods").replaceChildren(...pods.map((pod) => {
      const role = pod.state === "exited" ? "✕ ended" : pod.state === "frozen" ? "❄ frozen" : pod.leader ? "● leader" : "○ standby";
      return element("button", { "aria-pressed": String(pod.name === shownPod()), data: { pod: pod.name, state: pod.state, leader: String(pod.leader) }, title: "Show this pod",
        onclick: () => { chosenPod = pod.name; redraw(); } }, `pod ${pod.name}: ${role}`);
    }));
  }

  async function post(path, body) {
    try {
      const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      return await response.json().catch(() => ({}));
    } catch (error) {
      return { error: String(error) };
    }
  }

  // Sources of steps.

  const parse = (text) => text.split("\n").filter((line) => line.trim() !== "").map((line) => JSON.parse(line));

  function playRecording(steps, name) {
    recordingName = name;
    chosenPod = null;
    player.load(steps, false);
    player.play();
    listKeys();
  }

  function goLive() {
    recordingName = "";
    chosenPod = null;
    player.load(liveSteps, true);
    player.play();
    listKeys();
  }

  function listKeys() {
    const keys = new Set(player.steps.slice(-3000).map((step) => step.key).filter(Boolean));
    if (keys.size !== byId("keys").childElementCount) byId("keys").replaceChildren(...[...keys].sort().slice(0, 100).map((key) => element("option", { value: labState.short(key) })));
  }

  // offerRecording plays a recording while the cluster is built, which takes minutes. It is left to the user when to go live then.
  async function offerRecording() {
    if (lab.phase !== "building") return;
    const response = await fetch("recording.jsonl");
    const steps = parse(await response.text());
    if (!player.live && player.steps.length === 0) playRecording(steps, "");
  }

  function connect() {
    const events = new EventSource("steps");
    let isOffered = false;
    events.addEventListener("state", (event) => {
      lab = JSON.parse(event.data);
      if (lab.phase === "building" && !isOffered) {
        isOffered = true;
        setTimeout(offerRecording, 3000); // If all is built already, that is found out sooner.
      }
      if (lab.phase === "live" && !player.live && player.steps.length === 0) goLive();
      redraw();
    });
    events.addEventListener("steps", (event) => {
      const steps = JSON.parse(event.data);
      const isNew = liveSteps.length > 0 && steps[0].seq <= liveSteps.at(-1).seq; // The lab was started anew.
      const isFirst = liveSteps.length === 0 || isNew;
      if (isNew) liveSteps = [];
      liveSteps = liveSteps.concat(steps).slice(-Player.keep / 2);
      variants.draw(lab);
      if (!player.live) return;
      if (isFirst) player.load(liveSteps, true);
      else player.append(steps);
      // What happened before the page was opened is not played.
      if (player.playing && Date.now() - player.steps.at(-1).at > 5000) player.seek(player.steps.length);
      listKeys();
    });
  }

  // Controls.

  const controls = {
    play: () => player.playing ? player.pause() : player.play(),
    back: () => player.back(),
    forward: () => player.forward(),
    now: () => player.live ? (player.seek(player.steps.length), player.play()) : goLive(),
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
  byId("speed").addEventListener("change", (event) => { player.speed = Number(event.target.value); });
  byId("at").addEventListener("input", (event) => {
    player.pause();
    player.seek(Number(event.target.value));
  });
  byId("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    try {
      playRecording(parse(await file.text()), file.name);
    } catch (error) {
      byId("caption").textContent = `${file.name} is not a recording: ${error.message}`;
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
    requestAnimationFrame(frame);
  }

  const inlined = (id) => document.getElementById(id)?.textContent;
  const recording = inlined("lab-recording");
  if (recording !== undefined) {
    exercises.load(JSON.parse(inlined("lab-exercises") || "[]"));
    for (const { id } of document.querySelectorAll("script[id^=lab-variant-]")) recorded.set(id.slice("lab-variant-".length), parse(inlined(id)));
    variants.load(JSON.parse(inlined("lab-variants") || "[]"), recorded.keys());
    glossary.load(JSON.parse(inlined("lab-glossary") || "{}"));
    playRecording(parse(recording), "");
  } else {
    for (const [name, panel] of [["exercises", exercises], ["variants", variants], ["glossary", glossary]]) {
      fetch(`${name}.json`).then((response) => response.json()).then((all) => { panel.load(all); redraw(); });
    }
    connect();
  }
  redraw();
  requestAnimationFrame(frame);

  // For tests: what the page shows.
  window.lab = { player, get state() { return player.state; }, get shownPod() { return shownPod(); }, go };
})();
