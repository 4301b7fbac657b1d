// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { checks } from "./checks.js";
import { byId, element, update } from "./dom.js";
import * as glossary from "./glossary.js";
import { queuePicture } from "./pictures.js";
import { Player } from "./player.js";
import * as labState from "./state.js";
import { laneName, seconds, sentence, subject } from "./words.js";

// What is beside and below the picture: details, steps, acts, faults and exercises.

export class Detail {
  constructor({ player, onGo, onChange }) {
    Object.assign(this, { player, onGo, onChange, root: byId("detail"), term: null, selected: null });
  }

  // draw shows a stop, a step, and a word of the glossary: the selected ones, or else those of the newest step.
  draw(state, pod) {
    const step = this.step();
    const stop = this.selected ? this.selected.stop : step && step.stop;
    const about = glossary.stops[stop];
    if (!about) {
      update(this.root, element("h2", {}, "Select a stop"), element("p", {}, "Each box of the picture, each item in it and each step below can be selected."));
      return;
    }
    const terms = about.terms;
    const term = this.term && glossary.terms[this.term] ? this.term : null;
    update(this.root,
      element("h2", {}, about.title, this.selected ? element("button", { title: "Follow the steps again (escape)", onclick: () => this.select(null) }, "follow") : ""),
      element("p", {}, about.text),
      pod && stop === "queue" ? queuePicture(pod) : null,
      this.aboutItem(pod),
      this.selected && !this.selected.seq && !this.selected.key &&
        element("dl", {}, (about.arrows || []).map(([arrow, text]) => [element("dt", {}, arrow), element("dd", {}, text)])),
      step && this.aboutStep(state, step),
      element("h3", {}, "Glossary"),
      element("div", { className: "terms" }, terms.map((name) => element("button", { "aria-pressed": String(name === term), onclick: () => this.showTerm(name) }, name))),
      term && glossary.terms[term].map((part) => part.cloneNode(true)));
  }

  // step is the one to show: the selected one, or the last one that concerns the selected stop or key.
  step() {
    if (!this.selected) return this.player.current;
    const { seq, stop, id, key } = this.selected;
    for (let i = this.player.position - 1; i >= 0 && i > this.player.position - 5000; i--) {
      const step = this.player.steps[i];
      if (seq ? step.seq === seq : key ? step.key === key || step.object === key : concerns(step, stop, id)) return step;
    }
    return seq ? this.player.steps.find((step) => step.seq === seq) : null;
  }

  aboutItem(pod) {
    const key = this.selected && this.selected.key;
    if (!key || !pod) return [];
    const [waiting, processing] = [pod.waiting.get(key), pod.processing.get(key)];
    const delayed = [...pod.delayed.values()].filter((item) => item.key === key);
    const lines = [
      waiting && `waits with ${waiting.priority} priority: ${waiting.changes} changes, 1 key (${waiting.reasons.join("; ")})`,
      ...delayed.map((item) => `is added again when its delay has elapsed: ${item.reasons.join("; ")}`),
      processing && `is processed by worker ${processing.worker || "?"}${processing.again ? `, and was added ${processing.again} times meanwhile: Done queues it once` : ""}`,
      pod.retries.has(key) && `has failed ${pod.retries.get(key)} times since the last success`,
      ...labState.lanes.map((lane) => pod.lanes[lane].objects.has(key) && `is in the Indexer of ${laneName(lane)} at resourceVersion ${pod.lanes[lane].objects.get(key)}`),
    ].filter(Boolean);
    return [element("h3", { className: "key" }, key), ...lines.map((line) => element("p", {}, line))];
  }

  aboutStep(state, step) {
    const loop = labState.loopOf(state, step.seq);
    return [
      element("h3", {}, `Step ${step.seq}, ${{ wire: "seen on the wire", log: "logged by the controller", inferred: "inferred: follows from client-go's code" }[step.source] || ""}`),
      element("p", {}, sentence(state, step)),
      step.code ? element("p", {}, element("code", {}, step.code)) : null,
      step.raw ? element("pre", { tabIndex: 0, "aria-label": "The log line or message" }, readable(step.raw)) : null,
      loop && this.aboutLoop(loop),
    ];
  }

  // aboutLoop shows the way of a write from the request to the sync that follows its echo.
  aboutLoop(loop) {
    const stages = [
      ["request", `${loop.verb} ${loop.resource}`], ["response", `response: rv ${loop.resourceVersion}`], ["event", "its echo in the watch"],
      ["indexer", "in the Indexer"], ["handler", "handler"],
      ...(loop.notQueued ? [["notQueued", `key not queued: ${loop.why || ""}`]] : [["queue", "key queued"], ["sync", "sync"], ["syncEnd", `ends: ${loop.result || ""}`]]),
    ];
    const find = (seq) => this.player.steps.find((step) => step.seq === seq);
    const response = find(loop.response);
    return [element("h3", {}, `The loop of this write`), element("ol", {}, stages.map(([stage, text]) => {
      const step = loop[stage] && find(loop[stage]);
      if (!step) return element("li", { className: "open" }, `○ ${text}`);
      const after = response ? step.at - response.at : 0;
      return element("li", {}, element("button", { data: { seq: step.seq }, onclick: () => this.onGo(step.seq) }, `● ${text} `, element("span", { className: "soft" }, stage === "response" ? "" : `${after < 0 ? "−" : "+"}${seconds(Math.abs(after))}`)));
    }))];
  }

  showTerm(name) {
    this.term = name === this.term ? null : name;
    this.onChange();
  }

  select(selection) {
    if (!selection || !this.selected || selection.stop !== this.selected.stop) {
      this.term = selection && glossary.stops[selection.stop] ? glossary.stops[selection.stop].terms[0] : null;
    }
    this.selected = selection;
    this.onChange();
  }
}

// concerns reports whether a step is about a stop of the picture.
function concerns(step, stop, id) {
  const lane = id && labState.lanes.find((name) => id.endsWith(`-${name}`));
  if (lane && step.lane !== lane) return false;
  switch (stop) {
    case "worker": return ["worker", "sync", "request", "response"].includes(step.stop);
    case "limiter": return ["queueForget", "queueAddRateLimited"].includes(step.kind);
    case "queue": return step.stop === "queue" && ({
      processing: ["queueGet", "queueDone"], waiting: ["queueAdd", "queueReady"], delayed: ["queueAddAfter", "queueAddRateLimited"],
    }[id] || [step.kind]).includes(step.kind);
    case "api-server": return ["api-server", "act"].includes(step.stop);
    default: return step.stop === stop;
  }
}

// readable returns JSON with line breaks, and anything else as it is.
function readable(raw) {
  try {
    const lines = JSON.stringify(JSON.parse(raw), null, 1).split("\n");
    return lines.length > 2 ? lines.slice(1, -1).map((line) => line.slice(1)).join("\n") : raw;
  } catch {
    return raw;
  }
}

// The steps, as a list of rows. Only those near the position are rows.
export class StepList {
  static rows = 120;

  constructor(player, onSelect) {
    Object.assign(this, { player, onSelect, root: byId("rows"), filter: "", steps: null, end: 0 });
    byId("filter").addEventListener("input", (event) => {
      this.filter = event.target.value.trim();
      this.steps = null;
      this.update();
    });
    this.root.addEventListener("click", (event) => {
      const row = event.target.closest(".step");
      if (row) this.onSelect(Number(row.dataset.seq));
    });
    this.root.addEventListener("keydown", (event) => this.move(event));
  }

  // matches reports whether a step is in the list. Renewals of the Lease are many, and have a picture.
  matches(step) {
    return step.kind !== "lease" && (!this.filter || [step.key, step.object].some((name) => name && name.includes(this.filter)));
  }

  // draw updates the list soon. If much happens, that is not with each step: to lay it out takes long.
  draw() {
    this.timer ??= setTimeout(() => this.update(), 80);
  }

  // update appends the rows of the steps that have been shown since, and drops the oldest ones. Rows that stay can be clicked meanwhile.
  update() {
    clearTimeout(this.timer);
    this.timer = null;
    const { shown, steps } = this.player;
    if (steps !== this.steps || shown < this.end) {
      this.root.replaceChildren();
      Object.assign(this, { steps, end: 0 });
    }
    const rows = [];
    for (let i = shown - 1; i >= this.end && rows.length < StepList.rows; i--) {
      if (this.matches(steps[i])) rows.unshift(this.row(steps[i]));
    }
    this.root.append(...rows);
    this.end = shown;
    while (this.root.childElementCount > StepList.rows) this.root.firstElementChild.remove();
    const current = this.current && this.root.querySelector(`[data-seq="${this.current}"]`) || this.root.lastElementChild;
    for (const row of this.root.children) row.ariaSelected = String(row === current);
    if (current) {
      this.root.setAttribute("aria-activedescendant", current.id);
      // scrollIntoView would also scroll the page. With contain: strict, the list is the offsetParent of its rows.
      const [top, bottom] = [current.offsetTop, current.offsetTop + current.offsetHeight];
      if (top < this.root.scrollTop) this.root.scrollTop = top;
      if (bottom > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = bottom - this.root.clientHeight + 4;
    }
    byId("count").textContent = `${shown} of ${steps.length}`;
  }

  row(step) {
    const cell = (name, ...content) => element("span", { className: name }, content);
    return element("div", { className: "step", id: `step-${step.seq}`, role: "option", data: { seq: step.seq } },
      cell("number", String(step.seq)), cell("time soft", new Date(step.at).toISOString().slice(11, 23)), cell("source", element("i", { className: `mark ${step.source}`, title: step.source })),
      cell("stop-name", step.stop), cell("lane-name soft", laneName(step.lane)), cell("key", subject(step, this.player.state.pods.size > 1)),
      cell("what", element("b", {}, step.what || step.kind), step.resourceVersion ? ` rv ${step.resourceVersion}` : "", step.why ? ` – ${step.why}` : "", step.error ? ` – ${step.error}` : ""));
  }

  // move selects the row above or below.
  move(event) {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    const current = this.root.querySelector("[aria-selected=true]");
    const next = current && (event.key === "ArrowUp" ? current.previousElementSibling : current.nextElementSibling);
    if (next) this.onSelect(Number(next.dataset.seq));
  }
}

const objectName = { pattern: "[a-z0-9]([\\-a-z0-9]{0,61}[a-z0-9])?", title: "lower case letters, digits and dashes, at most 63" };

// The acts and faults of the live lab.
export class Actions {
  constructor(post) {
    this.post = post;
    byId("copy").addEventListener("click", async () => {
      await navigator.clipboard.writeText(byId("command-text").textContent);
      byId("copy").textContent = "copied";
      setTimeout(() => { byId("copy").textContent = "copy"; }, 1500);
    });
  }

  // draw draws the actions. faults are those that last.
  draw(lab, faults) {
    const signature = JSON.stringify([lab && lab.acts, lab && lab.faults, lab && lab.phase]);
    if (signature !== this.drawn) {
      this.drawn = signature;
      for (const id of ["acts", "faults"]) {
        const actions = lab && lab[id] || [];
        // What several actions have is drawn once.
        const shared = actions.flatMap((action) => action.fields || []).filter((field) => field.shared).slice(0, 1);
        const common = element("form", { className: "shared", hidden: shared.length === 0, onsubmit: (event) => event.preventDefault() }, shared.map((field) => this.label(field)));
        byId(id).replaceChildren(...actions.length > 0
          ? [common, ...actions.map((action) => this.form(id, action, common, lab.phase === "live"))]
          : [element("p", {}, "This is a recording. In the live lab, every button here does what it says.")]);
      }
    }
    if (!lab) return;
    for (const form of document.querySelectorAll("#faults form[data-name]")) {
      form.classList.toggle("on", [...faults.keys()].some((fault) => fault.split("/")[0] === form.dataset.name));
    }
  }

  label(field) {
    const common = { name: field.name, "aria-label": field.name, title: field.name };
    return element("label", {}, `${field.label || field.name} `, field.options
      ? element("select", common, field.options.map((option) => element("option", { value: option, selected: option === field.default }, option)))
      : element("input", { ...common, type: field.type || "text", value: field.default ?? "", required: true, min: field.min, max: field.max, ...field.type ? {} : objectName, autocomplete: "off", spellcheck: false }));
  }

  form(kind, action, common, isLive) {
    const form = element("form", { data: { name: action.name } },
      element("button", { disabled: !isLive, title: [action.label, action.command].filter(Boolean).join(": ") }, action.label || action.name),
      (action.fields || []).filter((field) => !field.shared).map((field) => this.label(field)));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (action.fields?.some((field) => field.shared) && !common.reportValidity()) return;
      const values = Object.fromEntries([...new FormData(common), ...new FormData(form)]);
      const { error, command } = await this.post(`${kind}/${action.name}`, values);
      byId("command-text").textContent = error ? `✕ ${error}` : command;
      byId("command").hidden = false;
    });
    return form;
  }
}

// The exercises: a task, a question to answer before the explanation is shown, and a check of the steps since it was begun.
export class Exercises {
  constructor({ post, onChange, onGo, onVariant }) {
    Object.assign(this, { post, onChange, onGo, onVariant, list: [], open: null, answers: new Map(), checks: new Map() });
  }

  load(list) { this.list = list; }

  // receive checks the exercises that were begun, now and then, after further steps of the live lab.
  receive(steps) {
    for (const { steps: seen } of this.checks.values()) {
      seen?.push(...steps);
      seen?.splice(0, seen.length - Player.keep);
    }
    this.timer ??= setTimeout(() => {
      this.timer = null;
      for (const [id, { steps }] of this.checks) {
        if (!steps || !checks[id](steps)) continue;
        this.checks.set(id, { seq: steps.at(-1).seq });
        this.post(`exercises/${id}`, {});
        this.onChange();
      }
    }, 100);
  }

  // check begins the check of an exercise anew, or ends it.
  check(id) {
    if (this.checks.get(id)?.steps) this.checks.delete(id);
    else this.checks.set(id, { steps: [] });
    this.onChange();
  }

  draw(lab) {
    const { checks } = this;
    const signature = JSON.stringify([this.list.length, this.open, [...this.answers], [...checks].map(([id, { seq }]) => [id, seq]), Boolean(lab)]);
    if (signature === this.drawn) return;
    this.drawn = signature;
    const done = this.list.filter((exercise) => checks.get(exercise.id)?.seq).length;
    byId("exercises").replaceChildren(element("p", {}, lab ? `${done} of ${this.list.length} done` : "The checks need the live lab."),
      ...this.list.flatMap((exercise, index) => {
        const check = checks.get(exercise.id) || {};
        const mark = check.seq ? "✓" : check.steps ? "▸" : "○";
        return [
          element("button", { "aria-expanded": String(this.open === exercise.id), onclick: () => this.toggle(exercise.id) }, `${mark} ${index + 1}. ${exercise.title}`),
          this.open === exercise.id ? this.form(exercise, check, Boolean(lab)) : null,
        ].filter(Boolean);
      }));
  }

  toggle(id) {
    this.open = this.open === id ? null : id;
    this.onChange();
  }

  form(exercise, check, isLive) {
    const answer = this.answers.get(exercise.id);
    const answered = (index) => {
      if (index === null) this.answers.delete(exercise.id);
      else this.answers.set(exercise.id, index);
      this.onChange();
    };
    const isAnswered = answer !== undefined;
    return element("div", { className: "exercise" },
      element("p", {}, exercise.task),
      isLive ? element("button", { onclick: () => this.check(exercise.id) }, check.steps ? "stop the check" : check.seq ? "check again" : "start the check") : null,
      question(exercise, answer, answered),
      check.seq ? element("p", {}, element("b", {}, "✓ the lab has seen it "), element("button", { onclick: () => this.onGo(check.seq) }, `step ${check.seq}`)) : null,
      check.steps ? element("p", {}, "▸ the lab is watching for it") : null,
      isAnswered && exercise.misunderstanding ? element("p", {}, "More in ", element("code", {}, `docs/reference/${exercise.misunderstanding}`), ".") : null,
      isAnswered && exercise.variant ? element("button", { className: "variant", onclick: () => this.onVariant(exercise.variant) }, "the controller without it") : null,
      isAnswered && answer !== exercise.answer ? element("button", { onclick: () => answered(null) }, "answer again") : null);
  }
}

// question shows a question with its choices and, once one is given, which one is right, and why.
export function question({ question, choices, answer, explanation }, given, onAnswer) {
  const isAnswered = given !== undefined;
  return [
    element("p", {}, element("b", {}, question)),
    choices.map((choice, index) => element("button", { className: "choice", disabled: isAnswered, onclick: () => onAnswer(index) },
      !isAnswered ? "" : index === answer ? "✓ " : index === given ? "✕ " : "", choice)),
    isAnswered ? element("p", {}, element("b", {}, given === answer ? "Right. " : "Not so. "), explanation) : null,
  ];
}
