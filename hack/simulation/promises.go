// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

// Promise is the name of something that a controller promises. Each is judged in a file of its own.
type Promise string

// The promises of any controller.
const (
	// LeaderWrites: an instance writes only while, as far as it could know, it holds the Lease.
	LeaderWrites Promise = "only the leader writes"
	// LeaseLast: an instance releases the Lease when it has no request open.
	LeaseLast Promise = "the Lease is released last"
	// OwnObjects: the program changes and deletes only what an owner reference, or its own creation, makes its own.
	OwnObjects Promise = "writes only what is its own"
	// LivingOwners: the program creates nothing for what it knows to be gone or being deleted.
	LivingOwners Promise = "nothing is created for what is being deleted"
	// OwnFields: a write changes no field that the program does not set.
	OwnFields Promise = "changes no fields but its own"
	// BoundedWork: the number of writes is bounded by what happens, and no request is repeated without end.
	BoundedWork Promise = "bounded work"
	// Pace: nothing that others do makes the program write at their speed.
	Pace Promise = "writes are paced"
	// Soon: two minutes, and a retry delay, after the last action or fault there are no more writes.
	Soon Promise = "reconciled soon"
	// Silence: in two resyncs without any change there is no request.
	Silence Promise = "silent"
	// Restart: instances that were restarted write nothing.
	Restart Promise = "a restart writes nothing"
	// SameEnd: a cluster in which nothing has gone wrong ends in the same state.
	SameEnd Promise = "path independence"
	// Generations: the status is about the newest generation, and never about one that does not exist.
	Generations Promise = "the status is about the newest generation"
	// TransitionTimes: that of a condition changes when its status does.
	TransitionTimes Promise = "transition times"
	// Truth: a status says nothing that is not so for longer than an event may lag.
	Truth Promise = "a status says nothing that is not so"
	// Deletion: what is deleted is gone in the end.
	Deletion Promise = "what is deleted goes"
	// NoLeftover: a process that has ended has left no goroutine.
	NoLeftover Promise = "no goroutine is left"
	// Health: no panic, no end of the process, no log without end.
	Health Promise = "health"
)

// The promises that probes judge.
const (
	// NoResync: what happens is corrected without a resync, even if a watch has missed it or a write has failed.
	NoResync Promise = "reconciled without a resync"
	// FreshDelay: an error after a success is retried at once, whatever errors there were before.
	FreshDelay Promise = "an error after a success"
	// SoonAfterErrors: after an hour of errors, the program recovers within its longest retry delay.
	SoonAfterErrors Promise = "recovers from an hour of errors"
	// OwnPause: what was refused for an object does not delay the creation of another one of its name.
	OwnPause Promise = "a new object does not wait for an old one"
	// Terminates: a process that was terminated ends within the grace period, also while its watches cannot begin.
	Terminates Promise = "ends when it is terminated"
	// NewSpec: a new spec is tried at once, whatever was refused for the old one.
	NewSpec Promise = "a new spec does not wait for the old one"
	// FreshPause: after a quiet time a change is corrected at once, whatever was undone before.
	FreshPause Promise = "a correction after a quiet time"
	// NotLast: a change of one object does not wait for many others.
	NotLast Promise = "one change among many objects"
)

// The strict promises, which are judged only if Config.Strict has them.
const (
	// OwnWrites: no write is computed from a cache that is older than the program's own last write of that object.
	OwnWrites Promise = "no write from a cache older than its own write"
	// FreshWrites: no write replaces a state of an object that the program cannot know.
	FreshWrites Promise = "no write from a stale cache"
	// FreshOwners: nothing is deleted, or created again, for a state of its owner that the program cannot know to be the newest one.
	FreshOwners Promise = "no deletion, and no second creation, from a stale cache"
	// NoConflict: no request conflicts with a state of the object that the program has seen a second before.
	NoConflict Promise = "no conflict"
	// FreshSpec: what fails after a new spec is retried at once, whatever errors there were before.
	FreshSpec Promise = "an error after a new spec"
	// Unseen: what no watch has shown is corrected without a resync, even if it was created just before.
	Unseen Promise = "what no watch has shown is corrected"
	// FreeWorkers: no worker sleeps until a request for another object is to be sent again, as client-go does for a response with Retry-After.
	FreeWorkers Promise = "no worker waits for one object"
)

var strictPromises = []Promise{OwnWrites, FreshWrites, FreshOwners, NoConflict, FreshSpec, Unseen, FreeWorkers, Forward, NoTwins}

// simulated is the promise of this package: what the program asks for is simulated.
const simulated Promise = "the simulation"

// fatal are the promises without which a walk cannot go on.
var fatal = []Promise{Health, BoundedWork, simulated}
