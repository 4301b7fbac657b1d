// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the program as its users meet it: the real binary on the real local Kubernetes, judged by what the API
// server holds and by the requests that it counted.
package e2e
