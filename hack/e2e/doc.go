// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e contains the end-to-end tests. They run the controller binary on a local Kubernetes, and check the state of the API
// server and the requests in its audit log.
package e2e
