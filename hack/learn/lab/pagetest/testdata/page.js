// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// What the page computes without an element of it.
export { checks } from "../../page/checks.js";
export { compare } from "../../page/compare.js";
export * as labState from "../../page/state.js";
