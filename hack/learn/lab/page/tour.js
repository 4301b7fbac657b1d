// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { byId, element } from "./dom.js";
import { question } from "./panels.js";
import * as labState from "./state.js";

// The stations of the guided tour. Each does something, stops before a step that matches before, and asks what happens next.
const tourStations = [
  {
    title: "A controller at rest",
    watch: "The controller has just started. Each informer has listed its objects once, and has a watch open. Nothing moves.",
    question: "Nobody changes anything. What does the controller do?",
    choices: ["It asks the API server every second whether something has changed.", "It waits for events: its watches are open, and there are no requests.",
      "It lists all objects again and again."],
    answer: 1,
    explanation: "A watch is one request that stays open. As long as nothing changes, nothing is sent.",
  },
  {
    title: "An event arrives",
    watch: "A user creates Foo a. Watch its event: Reflector, FIFO, Indexer, handler.",
    act: ["acts/create", { name: "a", deploymentName: "a", replicas: 1 }],
    before: { kind: "queueAdd", lane: "foos", key: "default/a" },
    question: "The cache has the Foo, and the handler is called. What does the handler do?",
    choices: ["It creates the Deployment.", "It puts the Foo, as it is now, into the workqueue.", "It puts the name default/a into the workqueue."],
    answer: 2,
    explanation: "A handler only adds a key. The work is done later, by a worker, with the state that the cache has then.",
  },
  {
    title: "A worker takes the key",
    watch: "The key waits in the workqueue until a worker takes it. Then syncHandler begins.",
    before: { kind: "sync", result: "read", lane: "foos" },
    question: "All that syncHandler has is the key. Where does it read the Foo?",
    choices: ["From the API server.", "From the Indexer, the cache in its memory.", "From the event, which the key carries."],
    answer: 1,
    explanation: "A lister reads the Indexer. This costs no request, but what it returns may be old.",
  },
  {
    title: "Desired and actual state",
    watch: "syncHandler compares what the Foo desires with what the cache has.",
    before: { kind: "request", verb: "create", resource: "deployments" },
    question: "The cache has no Deployment a. What comes next?",
    choices: ["A request that creates the Deployment.", "A wait for the event of the Deployment.", "A request that creates the Pods."],
    answer: 0,
    explanation: "The controller makes the actual state match the desired state. The Pods are the work of other controllers.",
  },
  {
    title: "The echo of a write",
    watch: "The Deployment is created. Watch how the response comes back to the worker.",
    before: { kind: "watchEvent", lane: "deployments", eventType: "ADDED" },
    question: "The worker has the response. How does the Deployment get into the cache?",
    choices: ["The worker puts it there.", "Through the watch, as a change of anybody else.", "With the next list."],
    answer: 1,
    explanation: "Only the watch changes the cache. Until the event has arrived, the cache does not have what the controller has just written.",
  },
  {
    title: "Drift",
    watch: "The Foo is Ready. Now a user deletes the Deployment.",
    act: ["acts/deleteDeployment", { name: "a" }],
    after: { kind: "handler", eventType: "delete", lane: "deployments" },
    before: { kind: "queueAdd", key: "default/a", lane: "deployments" },
    question: "The handler of Deployments is called with the deleted Deployment. Which key does it add?",
    choices: ["That of the Deployment.", "That of the Foo: it is in the owner reference of the Deployment.", "Those of all Foos."],
    answer: 1,
    explanation: "There is one kind of key, that of Foos. Whatever has happened, the Foo is synced, and the Deployment is created again.",
  },
  {
    title: "A write fails",
    watch: "The API server fails the next three writes of Deployments. A user scales the Foo.",
    act: ["faults/failWrite", { count: 3, code: "500" }, "acts/scale", { name: "a", replicas: 3 }],
    before: { kind: "queueAddRateLimited", key: "default/a" },
    question: "The patch has failed. syncHandler writes that to the status of the Foo, and returns the error. What becomes of the key?",
    choices: ["It is added again with a delay, which doubles with each failure.", "It is added again at once.", "It is dropped: the next event of the Foo adds it again."],
    answer: 0,
    explanation: "AddRateLimited delays it by 5, 10, 20 ms, and so on. After a success, Forget resets the delay.",
  },
  {
    title: "A leader dies",
    watch: "Two replicas run. One of them holds the Lease and has workers. It is killed.",
    act: ["faults/replicas", { count: "2" }],
    then: { when: { kind: "notLeader" }, act: ["faults/killLeader", {}] },
    after: { kind: "podExited" },
    before: { kind: "leader" },
    question: "The standby has full caches. When does it take over?",
    choices: ["At once: its connection to the leader breaks.", "When the Lease has expired.", "When a user restarts it."],
    answer: 1,
    explanation: "Nobody tells the standby that the leader is dead. It sees only that the Lease is not renewed any more.",
  },
];

// The guided tour. It watches the steps that are shown, and stops the lab at each station.
export class Tour {
  // post does an act, stop makes the lab stand still, after all that has happened or before the next step, and goOn lets it go on.
  constructor({ post, stop, goOn }) {
    Object.assign(this, { post, stop, goOn, at: -1, asked: false, answer: undefined, root: byId("tour") });
  }

  get isOpen() { return this.at >= 0 && this.at < tourStations.length; }
  get station() { return tourStations[this.at]; }

  async begin(at) {
    Object.assign(this, { at, asked: false, answer: undefined, passed: false, isThenDone: false });
    this.draw();
    if (!this.isOpen) return;
    await this.do(this.station.act);
    if (!this.station.before) this.ask();
  }

  async do(acts = []) {
    for (let i = 0; i < acts.length; i += 2) await this.post(acts[i], acts[i + 1]);
  }

  end() {
    this.at = -1;
    this.draw();
    this.goOn();
  }

  // stopsBefore reports whether the lab has to stand still before a step.
  stopsBefore(step) {
    if (!this.isOpen || this.asked || !this.station.before) return false;
    const { then, after, before } = this.station;
    const matches = (wanted) => labState.matches(step, wanted);
    if (then && matches(then.when) && !this.isThenDone) {
      this.isThenDone = true;
      this.do(then.act);
    }
    if (after && matches(after)) this.passed = true;
    if (!matches(before) || after && !this.passed) return false;
    this.ask();
    return true;
  }

  ask() {
    this.asked = true;
    this.stop(!this.station.before);
    this.draw();
  }

  draw() {
    this.root.hidden = !this.isOpen;
    if (!this.isOpen) return;
    const { station, answer } = this;
    const isLast = this.at === tourStations.length - 1;
    this.root.replaceChildren(element("div", {},
      element("h2", {}, `${this.at + 1} of ${tourStations.length}: ${station.title}`, element("button", { onclick: () => this.end() }, "end the tour")),
      element("p", {}, station.watch),
      this.asked ? question(station, answer, (index) => { this.answer = index; this.draw(); }) : null,
      answer !== undefined ? element("button", { className: "primary", onclick: () => this.goOnTo(this.at + 1) }, isLast ? "to the exercises" : "go on") : null));
  }

  goOnTo(at) {
    if (at === tourStations.length) {
      this.end();
      byId("tab-exercises").click();
      return;
    }
    this.goOn();
    this.begin(at);
  }
}
