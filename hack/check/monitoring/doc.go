// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring has the tests of artifacts/components. The alerts are evaluated by Prometheus' rule engine on the metrics of real
// runs in testdata, which `make record-metrics` records.
package monitoring
