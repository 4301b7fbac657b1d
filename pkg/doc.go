// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pkg has no code of its own. Each package below it answers one question. These know Foos, and are edited with them:
//
//   - apis: what can a user ask for in a Foo, and what does a Foo report?
//   - control: how is a write made so that it does no harm?
//   - foostatus: what does a Foo report, given the rollout of what serves it, or what is wrong with it?
//   - generated: how do programs read, watch and write Foos?
//   - options: what do the flags mean?
//   - ownership: which Foo controls an object, and which objects does a Foo control?
//
// These know no kind, and are kept as they are:
//
//   - consistency: are the caches new enough to act on?
//   - diagnostics: what can a user do about an error of the API server?
//   - election: which of several instances may write?
//   - kubeconfig: how does the process reach its cluster?
//   - metrics: how many syncs are there, with which results, and how long do they take?
//   - priorityqueue: which key is synced next, and when?
//   - server: how can a cluster see that the process is healthy, and how fast it works?
//   - signals: when does the process stop?
package pkg
