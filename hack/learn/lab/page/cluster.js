// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// The cluster of the lab: an API server and the instances of the controller, each in a Web Worker, and the clock that all of them have.
export class Cluster {
  // onProgress is called with the part that has been loaded, onSteps with steps, onState with the state, and onFailed with the reason if the
  // API server ends.
  constructor({ onProgress, onSteps, onState, onFailed }) {
    Object.assign(this, { onProgress, onSteps, onState, onFailed });
    this.instances = new Map();
    this.modules = new Map();
    this.calls = new Map();
    this.lastCall = 0;
    this.speed = 1;
    this.time = { time: Cluster.real(), since: Cluster.real(), speed: 1 };
    this.state = null;
    this.stepping = 0;
  }

  static real() { return performance.timeOrigin + performance.now(); }

  // unsupported says what the browser lacks, or nothing.
  static get unsupported() {
    const missing = ["WebAssembly", "Worker", "TransformStream"].find((name) => !(name in globalThis));
    return missing && `This browser has no ${missing}, which the live lab needs.`;
  }

  async start() {
    const version = await (await fetch("version.json")).json();
    this.canBuild = version.build;
    this.modules.set("", await this.load(version));
    this.apiServer = new Worker("worker.js", { type: "module" });
    this.apiServer.onmessage = ({ data }) => this.receive(data);
    this.apiServer.postMessage({ module: this.modules.get(""), time: this.time });
  }

  // load returns the module, which a browser keeps: its address changes with its content.
  async load({ sha256, compressed, build }) {
    const response = await fetch(`lab.wasm${build ? "" : ".zst"}?${sha256}`, { cache: "force-cache" });
    if (!response.ok) throw new Error(`lab.wasm: ${response.status} ${response.statusText}`);
    let loaded = 0;
    const counted = response.body.pipeThrough(new TransformStream({
      transform: (chunk, controller) => {
        loaded += chunk.length;
        this.onProgress(loaded / compressed);
        controller.enqueue(chunk);
      },
    }));
    const content = build ? counted : counted.pipeThrough(await Cluster.decompression());
    return WebAssembly.compileStreaming(new Response(content, { headers: { "Content-Type": "application/wasm" } }));
  }

  // decompression returns a stream that decompresses zstd.
  static async decompression() {
    const { Decompress } = await import("./fzstd.js");
    let decompressor = null;
    return new TransformStream({
      start(controller) { decompressor = new Decompress((chunk) => controller.enqueue(chunk)); },
      transform: (chunk) => decompressor.push(chunk),
      flush: () => decompressor.push(new Uint8Array(0), true),
    });
  }

  // build loads the module of a variant, which the server builds now.
  async build(variant) {
    if (this.modules.has(variant)) return;
    const response = await fetch(`variants/${variant}.wasm`);
    if (!response.ok) throw new Error(await response.text());
    this.modules.set(variant, await WebAssembly.compileStreaming(response));
  }

  receive({ kind, content }) {
    switch (kind) {
      case "steps": this.onSteps(content); return;
      case "state":
        this.state = content;
        this.onState(content);
        return;
      case "start": this.startInstance(content); return;
      case "kill": this.stopInstance(content); return;
      case "freeze": case "thaw": case "terminate": this.instances.get(content)?.postMessage({ [kind]: true }); return;
      case "response":
        this.calls.get(content.id)?.(content);
        this.calls.delete(content.id);
        return;
      case "log": console.error(content); return;
      case "failed": this.onFailed(`The API server has ended: ${content}.`);
    }
  }

  startInstance({ pod, variant, flags }) {
    this.stopInstance(pod);
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker("worker.js", { type: "module" });
    this.instances.set(pod, worker);
    this.apiServer.postMessage({ connect: pod, port: port1 }, [port1]);
    worker.postMessage({ module: this.modules.get(variant), args: ["sample-controller", ...flags], port: port2, time: this.time }, [port2]);
  }

  stopInstance(pod) {
    this.instances.get(pod)?.terminate();
    this.instances.delete(pod);
  }

  // post makes the API server do something, and returns its response.
  post(path, body) {
    const id = ++this.lastCall;
    return new Promise((resolve) => {
      this.calls.set(id, resolve);
      this.apiServer.postMessage({ path, body, id });
    });
  }

  // now is the time of the cluster in ms.
  now() { return this.time.time + (Cluster.real() - this.time.since) * this.time.speed; }

  setSpeed(speed) {
    this.time = { time: this.now(), since: Cluster.real(), speed };
    for (const worker of [this.apiServer, ...this.instances.values()]) worker.postMessage({ time: this.time });
  }

  get isRunning() { return this.time.speed > 0 && this.stepping === 0; }

  // pause stops the clock, and all requests and events on their way.
  pause() {
    this.stepping = 0;
    this.setSpeed(0);
    this.post("gate", { closed: true });
  }

  resume() {
    this.stepping = 0;
    this.setSpeed(this.speed);
    this.post("gate", { closed: false });
  }

  // changeSpeed changes how fast the clock goes when it does.
  changeSpeed(speed) {
    this.speed = speed;
    if (this.isRunning) this.setSpeed(speed);
  }

  // step lets one request or event continue, and the clock go on until the next one waits. If none comes soon, time goes faster.
  async step() {
    const stepping = this.stepping = ++Cluster.steps;
    const began = Cluster.real();
    await this.post("gate", { closed: true });
    await this.post("gate", { release: true });
    this.setSpeed(1);
    while (this.stepping === stepping) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const elapsed = Cluster.real() - began;
      if (elapsed > 60 && this.state.held > 0 || elapsed > 5000) return this.pause();
      if (elapsed > 300 && this.time.speed === 1) this.setSpeed(20);
    }
  }
}
Cluster.steps = 0;
