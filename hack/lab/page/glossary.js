// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// What the stops of the picture are, what travels along their arrows, and the words that one needs for them.
const glossary = (() => {
  "use strict";

  const stops = {
    "api-server": {
      title: "API server",
      text: "Stores the objects, in etcd. Everybody reads and writes them here: kubectl, this controller, the Deployment controller. Each write " +
        "gives the object a new resourceVersion, and every watch of the resource gets an event.",
      arrows: [
        ["→ Reflector, LIST", "all objects, once at the start, and again if a watch cannot be continued"],
        ["→ Reflector, WATCH", "each change, as an event, over a connection that stays open"],
        ["← workers, requests", "creates, patches and deletes of what differs, the status, and a few live reads"],
        ["→ workers, responses", "the object as stored, with its new resourceVersion; or an error"],
      ],
      terms: ["resourceVersion", "watch", "finalizer and garbage collection", "leader election"],
    },
    reflector: {
      title: "Reflector",
      text: "Lists all objects of a resource once, and then watches it: the API server sends each change over one connection that stays open. " +
        "Each change goes into the FIFO. If the watch ends, the Reflector continues where it was, or lists again if it cannot.",
      arrows: [
        ["← API server", "the list, then events"],
        ["→ FIFO", "each object or change, as soon as it arrives"],
      ],
      terms: ["Reflector", "watch", "relist", "resourceVersion"],
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
      terms: ["FIFO", "resync", "tombstone"],
    },
    indexer: {
      title: "Indexer",
      text: "The cache: the last known state of every object of the resource, in the memory of this process. Listers read it. It is older " +
        "than the API server's state by the time that an event needs to arrive, or by minutes if the watch is interrupted: then it is stale.",
      arrows: [
        ["← FIFO", "each change of an object, or a new list"],
        ["→ workers", "objects that syncHandler asks for through listers: reads of memory, no requests"],
      ],
      terms: ["Indexer", "lister", "stale cache", "resourceVersion"],
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
      terms: ["handler", "owner reference", "tombstone", "resync", "level-triggered"],
    },
    queue: {
      title: "workqueue",
      text: "Keys, namespace/name, that have to be synced. A key waits at most once, however often it is added, and is processed by one worker " +
        "at a time. If it is added while it is processed, it waits again as soon as that is done.",
      arrows: [
        ["← handlers", "keys: Add, or AddAfter with a delay"],
        ["→ workers, Get", "the next key, high priority first"],
        ["← workers, Done", "the key may be handed out again"],
        ["← workers, AddAfter", "the key with a delay of 1 s, if the cache is stale"],
        ["← rate limiter", "the key of a sync that failed, or after which a user has to act, with a growing delay"],
        ["delayed → waiting", "a key whose delay has elapsed"],
      ],
      terms: ["workqueue", "Add", "Get", "Done", "priority", "requeue"],
    },
    limiter: {
      title: "Rate limiter",
      text: "Remembers how often each key has failed, and derives the delay of its next retry: 5 ms, 10 ms, 20 ms, and so on to 1000 s. A bucket " +
        "for all keys together allows 50 retries per second, and 300 at once. Only what is added with AddRateLimited asks it.",
      arrows: [
        ["← workers, AddRateLimited", "the key of a sync that failed"],
        ["→ delayed", "the same key, with the delay that its number of failures asks for"],
        ["← workers, Forget", "after a success: start counting anew"],
      ],
      terms: ["rate limiter", "AddRateLimited", "Forget", "requeue"],
    },
    worker: {
      title: "Workers",
      text: "Goroutines that take a key from the workqueue and call syncHandler with it: read the Foo and its Deployment from the Indexer, " +
        "compare the desired with the actual state, and write what differs. If nothing differs, there is no request.",
      arrows: [
        ["← workqueue, Get", "one key"],
        ["← Indexer", "the Foo and its Deployment, as cached"],
        ["→ API server", "requests, if something differs"],
        ["→ workqueue", "Done, always; after a failure AddRateLimited, after a success Forget"],
      ],
      terms: ["worker", "syncHandler", "level-triggered", "lister", "Forget", "Done"],
    },
  };
  stops.sync = stops.worker;
  stops.request = { ...stops.worker, title: "Request", terms: ["resourceVersion", "conflict", "stale cache", "owner reference"],
    text: "A request of the controller to the API server. Those of a sync are the few live reads that a cache cannot replace, and writes." };
  stops.response = { ...stops.request, title: "Response",
    text: "What the API server sends back for a request. After a write it has the object's new resourceVersion: the same with which the change " +
      "comes back through the watch." };
  stops.act = { title: "Act", terms: ["level-triggered"], text: "What a user does, and the command that does the same." };
  stops.fault = { title: "Fault, or event of a process", terms: ["leader election", "relist"],
    text: "A fault that the lab injects between the controller and the API server or into a process, or what follows for the process." };
  stops.exercise = { title: "Exercise", terms: [], text: "The lab has seen what an exercise asks for." };

  // wrong is a common misunderstanding that the text corrects.
  const terms = {
    "Reflector": { text: "The part of client-go that lists and watches one resource and hands every change on. It knows nothing of the controller.",
      code: "client-go/tools/cache/reflector.go" },
    "watch": { text: "A request that stays open, through which the API server sends each change of a resource as an event: ADDED, MODIFIED or " +
      "DELETED. A BOOKMARK only says up to which resourceVersion everything has been sent." },
    "relist": { text: "If a watch cannot be continued, because the events since then are no longer kept, the Reflector lists all objects again. " +
      "So no change is lost for good, but its single steps are: only the newest state arrives.",
      wrong: "An informer does not miss changes forever, and needs no resync to find them." },
    "FIFO": { text: "The queue between the Reflector and the Indexer. It holds objects and what happened to them, while the workqueue holds keys." },
    "Indexer": { text: "A thread-safe store of objects by key, and by the values of indexes such as the namespace. What it returns is the cached " +
      "object itself: copy it before you change it." },
    "lister": { text: "Typed read access to the Indexer, such as foosLister.Foos(namespace).Get(name).",
      wrong: "Listers never ask the API server. They read memory, which can be out of date." },
    "handler": { text: "AddFunc, UpdateFunc and DeleteFunc, which the informer calls with the object. An event is only a hint that a key is worth " +
      "a look: what the event said is not passed on." },
    "tombstone": { text: "cache.DeletedFinalStateUnknown: what a delete handler gets if the watch was interrupted while the object was deleted, " +
      "and a list no longer has it. It has the key and the last state in the cache.",
      wrong: "It does not stand for an object that was created and deleted before it was cached. It was cached; its deletion was missed." },
    "resync": { text: "Every 30 s here, the informer calls the update handlers for everything in its cache, with the same object as old and new. " +
      "It is a safety net for what no event announces.",
      wrong: "A resync makes no request. It repeats the cache, and neither fetches anything nor finds missed events." },
    "workqueue": { text: "client-go's queue between handlers and workers. Many changes of a Foo can become one sync of its key, two workers never " +
      "have the same key, and keys can come back after a delay.",
      wrong: "It holds keys, not events or objects: a sync has to use the newest state." },
    "Add": { text: "Adds a key at once. If it is already waiting, it still waits only once; if it is being processed, Done queues it again.",
      wrong: "Add is not rate limited. A flood of events is met by merging keys, not by delays." },
    "Get": { text: "Takes the next key, or waits for one. The key counts as being processed until Done is called." },
    "Done": { text: "Says that the processing of a key has ended, successfully or not. If the key was added meanwhile, it waits again from now. Every " +
      "Get needs a Done.",
      wrong: "Done does not mean success, and does not clear the retries: that is Forget." },
    "Forget": { text: "Tells the rate limiter that the failures of a key no longer count: its retries are cleared, and the next failure is a first one again.",
      wrong: "Forget does not take a key off the queue, and does not end its processing: that is Done." },
    "AddRateLimited": { text: "Adds a key after the delay that the rate limiter asks for. Only a sync that did not succeed does this." },
    "rate limiter": { text: "The longer one of two delays: exponential for each item, from its own failures, and the bucket that all items share.",
      wrong: "It does not slow down every item. Only retries ask it; and as long as the bucket has tokens, one item's failures delay no other." },
    "requeue": { text: "To add a key again after its sync: with the rate limiter after a failure, or after a fixed time, as when the cache is stale." },
    "priority": { text: "Keys of high priority are taken first: changes and retries. The initial list and resyncs have low priority. A key that " +
      "waits with low priority moves up if it is added with high priority." },
    "worker": { text: "runWorker calls processNextWorkItem in a loop: Get, syncHandler, then Forget or a requeue, and Done. There are as many as the " +
      "flag -workers says; two of them never have the same key." },
    "syncHandler": { text: "Gets nothing but a key. Reads the Foo and its Deployment from the caches, compares, writes what differs, and reports in the " +
      "status. Can be called at any time, and once too often does no harm." },
    "level-triggered": { text: "To act on the state as it is (a level), not on the change that was reported (an edge). Three changes, one of which was " +
      "missed, lead to the same result as one.",
      wrong: "An event is not a work order. Nobody counts or replays events." },
    "resourceVersion": { text: "The version of an object's stored state. Each write gives it a new one. A client compares two of the same resource to see " +
      "which is newer, and sends one along to write only if nothing has changed since.",
      wrong: "It is not the generation, which counts changes of the spec alone." },
    "stale cache": { text: "A cache that has not got a change yet, even one that the controller made itself: the response to a write arrives before its " +
      "event. The next sync of that Foo waits until the cache has reached the resourceVersion of the response.",
      wrong: "You cannot read back at once what you have written. Between the response and the event, the lister returns the old state." },
    "conflict": { text: "HTTP 409: the object has a newer resourceVersion than the one that the write was computed from. The write is rejected, and " +
      "rightly so: the key is retried with what the watch delivers. It is not logged as an error." },
    "owner reference": { text: "In the metadata of a Deployment: which Foo controls it, by kind, name and UID. With it a handler finds the Foo of a " +
      "Deployment, and the garbage collector what to delete.",
      wrong: "The name or a label does not make a Deployment ours. The UID of the controller reference does." },
    "finalizer and garbage collection": { text: "If a Foo is deleted, the garbage collector, a controller of Kubernetes, deletes the objects whose " +
      "owner references name it. A finalizer keeps an object until its cleanup has been done; this controller needs none.",
      wrong: "The controller does not delete the Deployment of a deleted Foo." },
    "leader election": { text: "Of several instances, the one that holds the Lease and renews it works. The others keep their caches filled and wait. If " +
      "the leader dies, its Lease expires and another one takes it.",
      wrong: "A standby is not idle in every way: it has caches, but no workqueue." },
  };

  return { stops, terms };
})();
