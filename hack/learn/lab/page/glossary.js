// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";

// What the stops of the picture are, what travels along their arrows, and the terms that one needs for them.

export const stops = {
  "api-server": {
    title: "API server",
    text: "Stores the objects, in etcd. Everybody reads and writes them here: kubectl, this controller, the Deployment controller. Each write " +
      "gives the object a new resourceVersion, and every watch of the resource gets an event.",
    arrows: [
      ["→ Reflector, WATCH", "all objects, at the start and if a watch cannot be continued, and then each change, as events over a connection that " +
        "stays open"],
      ["← workers, requests", "creates, patches and deletes of what differs, the status, and a few live reads"],
      ["→ workers, responses", "the object as stored, with its new resourceVersion; or an error"],
    ],
    terms: ["resourceVersion", "Watch", "Garbage collection", "Finalizer", "Leader election"],
  },
  reflector: {
    title: "Reflector",
    text: "Watches a resource: the API server sends all objects, and then each change, over one connection that stays open. Each goes into " +
      "the FIFO. If the watch ends, the Reflector continues where it was, or gets all objects again if it cannot.",
    arrows: [
      ["← API server", "all objects, then each change, as events"],
      ["→ FIFO", "each object or change, as soon as it arrives"],
    ],
    terms: ["Reflector", "Watch", "resourceVersion", "Bookmarks and WatchList", "Informer"],
  },
  fifo: {
    title: "FIFO",
    text: "Changes on their way from the Reflector to the informer's own goroutine, in order. Each one is taken out once: it first changes " +
      "the Indexer (1), and then the event handlers are called (2). So a handler, and what it queues, can rely on the cache.",
    arrows: [
      ["← Reflector", "changes, in order; from a resync: what the Indexer has"],
      ["1 → Indexer", "the new state of the object, first"],
      ["2 → handlers", "the same change, once the Indexer has it"],
    ],
    terms: ["FIFO", "Resync", "Tombstone", "Why workers wait for the caches"],
  },
  indexer: {
    title: "Indexer",
    text: "The cache: the last known state of every object of the resource, in the memory of this process. Listers read it. It is older " +
      "than the API server's state by the time that an event needs to arrive, or by minutes if the watch is interrupted: then it is stale.",
    arrows: [
      ["← FIFO", "each change of an object, or a new list"],
      ["→ workers", "objects that syncHandler asks for through listers: reads of memory, no requests"],
    ],
    terms: ["Indexer", "Lister", "Stale cache", "resourceVersion"],
  },
  handler: {
    title: "Event handlers",
    text: "Functions of the controller that the informer calls for each change, one after the other. They find the Foo that is affected, and " +
      "add its key to the workqueue, unless only the status or metadata of a Foo has changed: most of these changes are the controller's own. " +
      "They do nothing else: while one runs, all further events for the same registration wait, in a buffer without a bound.",
    arrows: [
      ["← FIFO", "the object, for an update also as it was before"],
      ["→ workqueue, Add", "the key of the Foo concerned, at once"],
      ["→ workqueue, AddAfter", "the key with a delay, if the status of a Deployment has changed: many such changes become one sync"],
    ],
    terms: ["Event handler", "Event", "Key", "Owner reference", "Tombstone", "Resync", "Level-triggered", "Shared"],
  },
  queue: {
    title: "workqueue",
    text: "Keys, namespace/name, that have to be synced. A key waits at most once, however often it is added, and is processed by one worker " +
      "at a time. If it is added while it is processed, it waits again as soon as that is done.",
    arrows: [
      ["← handlers", "keys: Add, or AddAfter with a delay"],
      ["→ workers, Get", "the next key, high priority first, but every second one of low priority once that has waited for 30 s"],
      ["← workers, Done", "the key may be handed out again"],
      ["← workers, AddAfter", "the key with a delay: 1 s if the cache is stale or the Lease lost, up to half a second if the status was just updated, and if " +
        "the Foo is stalled until it may be so no longer: the end of its write pause, 2 s later, or a minute for a name that is taken"],
      ["← rate limiter", "the key of a sync that failed, with a growing delay"],
      ["delayed → waiting", "a key whose delay has elapsed"],
    ],
    terms: ["Workqueue", "Key", "Done and Forget", "Priority", "Rate limiter", "Write pacing"],
  },
  limiter: {
    title: "Rate limiter",
    text: "Remembers how often each key has failed, and derives the delay of its next retry: 5 ms, 10 ms, 20 ms, and so on to 1000 s. A bucket " +
      "for all keys together allows 50 retries per second, and 300 at once, but delays none by more than 30 s. Only what is added with " +
      "AddRateLimited asks it.",
    arrows: [
      ["← workers, AddRateLimited", "the key of a sync that failed"],
      ["→ delayed", "the same key, with the delay that its number of failures asks for"],
      ["← workers, Forget", "after a success, or if the Foo is stalled: start counting anew"],
    ],
    terms: ["Rate limiter", "Done and Forget"],
  },
  worker: {
    title: "Workers",
    text: "Goroutines that take a key from the workqueue and call syncHandler with it: read the Foo and its Deployment from the Indexer, " +
      "compare the desired with the actual state, and write what differs. If nothing differs, there is no request.",
    arrows: [
      ["← workqueue, Get", "one key"],
      ["← Indexer", "the Foo and its Deployment, as cached"],
      ["→ API server", "requests, if something differs"],
      ["→ workqueue", "Done, always; after a failure AddRateLimited, after a success Forget, and if the Foo is stalled Forget and AddAfter"],
    ],
    terms: ["Worker", "Level-triggered", "Lister", "Done and Forget"],
  },
};
stops.sync = stops.worker;
stops.request = { ...stops.worker, title: "Request",
  terms: ["resourceVersion", "Conflicts and expectations", "Patch, update and server-side apply", "Status subresource and generation", "Stale cache", "Owner reference"],
  text: "A request of the controller to the API server. Those of a sync are the few live reads that a cache cannot replace, and writes." };
stops.response = { ...stops.request, title: "Response",
  text: "What the API server sends back for a request. After a write it has the object's new resourceVersion: the same with which the change " +
    "comes back through the watch." };
stops.act = { title: "Act", terms: ["Level-triggered"], text: "What a user does, and the command that does the same." };
stops.fault = { title: "Fault, or event of a process", terms: ["Leader election", "Watch"],
  text: "A fault that the lab injects between the controller and the API server or into a process, or what follows for the process." };
stops.promise = { title: "Broken promise", terms: [], text: "What the walk has found: the controller has broken one of its promises. The steps before show how." };
stops.exercise = { title: "Exercise", terms: [], text: "The lab has seen what an exercise asks for." };

// The terms by name, each with the elements that explain it.
export const terms = {};

// load takes the terms from a page of the documentation: from each section the first paragraph, with a link to the rest.
export function load(html, url) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const link of page.links) Object.assign(link, { href: new URL(link.getAttribute("href"), url), target: "_blank" });
  for (const { id, textContent: name, nextElementSibling: text } of page.querySelectorAll("h2:has(+ p), h3:has(+ p)")) {
    terms[name] = [element("h4", {}, element("a", { href: `${url}#${id}`, target: "_blank" }, name)), text];
  }
}
