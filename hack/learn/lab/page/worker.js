// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// A process in a Web Worker: an instance of the controller, or the API server, which is the same WebAssembly module with another name. Its
// clock is the one of the lab, so that the lab can stop it. What it writes to stderr is its log, and its requests are messages.
import "./wasm_exec.js";

// The clock of the lab, which stands still or goes slower or faster than the one of the browser.
const clock = (() => {
  const browser = { now: performance.now.bind(performance), setTimeout: self.setTimeout.bind(self), clearTimeout: self.clearTimeout.bind(self) };
  const real = () => performance.timeOrigin + browser.now();
  const timers = new Map();
  let at = { time: real(), since: real(), speed: 0 };
  let latest = 0, lastId = 0;
  const now = () => latest = Math.max(latest, at.time + (real() - at.since) * at.speed);

  function arm(id, timer) {
    browser.clearTimeout(timer.handle);
    if (at.speed === 0) return;
    timer.handle = browser.setTimeout(() => {
      if (now() < timer.due) return arm(id, timer);
      timers.delete(id);
      timer.call();
    }, Math.max(0, Math.ceil((timer.due - now()) / at.speed)));
  }

  self.setTimeout = (call, delay) => {
    const timer = { call, due: now() + (delay || 0) };
    timers.set(++lastId, timer);
    arm(lastId, timer);
    return lastId;
  };
  self.clearTimeout = (id) => {
    browser.clearTimeout(timers.get(id)?.handle);
    timers.delete(id);
  };
  self.Date = class extends Date {
    constructor(...args) {
      super(...(args.length > 0 ? args : [now()]));
    }
    static now() { return now(); }
  };
  const origin = real();
  performance.now = () => now() - origin;

  return {
    soon: (call) => browser.setTimeout(call, 0),
    // set sets the clock: it shows a time, in ms, at a time of the browser, and goes on with a speed from then on.
    set(to) {
      at = to;
      for (const [id, timer] of timers) arm(id, timer);
    },
  };
})();

// logLines calls a function with each line that the process writes.
function logLines(onLine) {
  const decoder = new TextDecoder();
  let rest = "";
  globalThis.fs.writeSync = (_, content) => {
    const lines = (rest + decoder.decode(content, { stream: true })).split("\n");
    rest = lines.pop();
    lines.forEach(onLine);
    return content.length;
  };
}

// run runs the module as a process with arguments, and returns its exit code.
async function run(module, args) {
  const go = new Go();
  let code = 0;
  go.argv = args;
  go.env = {};
  go.exit = (exitCode) => { code = exitCode; };
  await go.run(await WebAssembly.instantiate(module, go.importObject));
  return code;
}

// An instance of the controller. Its messages wait while it is frozen.
function startInstance({ module, args, port, time }) {
  let frozen = null; // or what waits
  let worldTime = time;
  const requests = new Map();
  let lastId = 0;
  clock.set(time);
  const unlessFrozen = (call) => frozen ? frozen.push(call) : call();
  const send = (message) => unlessFrozen(() => port.postMessage(message));
  port.onmessage = ({ data }) => unlessFrozen(() => receive(data));
  self.onmessage = ({ data }) => {
    if (data.time) worldTime = data.time;
    if (data.freeze) frozen = frozen || [];
    clock.set(frozen ? { ...worldTime, speed: 0 } : worldTime);
    if (data.terminate) unlessFrozen(() => self.terminate());
    if (!data.thaw || !frozen) return;
    const waiting = frozen;
    frozen = null;
    clock.set(worldTime);
    waiting.forEach((call) => call());
  };

  function receive({ id, what, value }) {
    const request = requests.get(id);
    if (!request) return;
    switch (what) {
      case "head": {
        const { status, headers } = JSON.parse(value);
        const body = new ReadableStream({ start(controller) { request.controller = controller; }, cancel: () => abort(id) });
        request.resolve(new Response(body, { status, headers: Object.fromEntries(Object.entries(headers).filter(([, text]) => text)) }));
        return;
      }
      case "chunk":
        request.controller.enqueue(value);
        return;
      case "end":
        requests.delete(id);
        request.controller.close();
        return;
      case "error":
        requests.delete(id);
        request.reject(new TypeError(value));
    }
  }

  function abort(id) {
    if (requests.delete(id)) send({ abort: id });
  }

  self.fetch = (url, { method = "GET", headers, body, signal } = {}) => new Promise((resolve, reject) => {
    const id = ++lastId;
    requests.set(id, { resolve, reject });
    signal?.addEventListener("abort", () => {
      const { controller } = requests.get(id) || {};
      abort(id);
      const error = new DOMException("The request was aborted.", "AbortError");
      reject(error);
      controller?.error(error);
    });
    send({ id, request: { method, url: String(url), headers: Object.fromEntries(headers || []), body: body ? new TextDecoder().decode(body) : "" } });
  });
  logLines((line) => send({ log: line }));
  run(module, args).catch(String).then((code) => {
    send({ exited: code });
    self.close(); // What the process has left behind must not call it.
  });
}

// The API server. Each instance has a port to it.
function startAPIServer({ module, time }) {
  const ports = new Map();
  let lab = null, instances = 0, steps = [];
  clock.set(time);
  logLines((line) => self.postMessage({ kind: "log", content: line }));

  // Steps are many: those that happen in one go are one message.
  function flush() {
    if (steps.length > 0) self.postMessage({ kind: "steps", content: steps });
    steps = [];
  }
  globalThis.toPage = (kind, text) => {
    const content = JSON.parse(text);
    if (kind === "steps") {
      if (steps.length === 0) clock.soon(flush);
      steps.push(...content);
      return;
    }
    flush();
    if (kind === "kill" || kind === "start") ports.get(content.pod || content)?.close();
    self.postMessage({ kind, content });
  };
  globalThis.serve = (functions) => { lab = functions; };

  function connect(pod, port) {
    const instance = ++instances;
    ports.set(pod, port);
    port.onmessage = ({ data }) => {
      if (data.log !== undefined) lab.log(pod, data.log);
      else if (data.exited !== undefined) lab.exited(pod, `exit code ${data.exited}`);
      else if (data.abort) lab.abort(`${instance}/${data.abort}`);
      else {
        const { id, request } = data;
        lab.request(pod, `${instance}/${id}`, JSON.stringify(request), (what, value) => port.postMessage({ id, what, value }));
      }
    };
  }

  self.onmessage = ({ data }) => {
    if (data.time) clock.set(data.time);
    if (data.connect) connect(data.connect, data.port);
    if (data.path) lab.handle(data.id, data.path, JSON.stringify(data.body));
  };
  run(module, ["api-server"]).catch(String).then((how) => self.postMessage({ kind: "failed", content: how }));
}

self.onmessage = ({ data }) => (data.port ? startInstance : startAPIServer)(data);
