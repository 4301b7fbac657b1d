// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster builds and runs a local Kubernetes for development and tests: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler on random ports of 127.0.0.1. Nodes and Pods are simulated by kwok, so that
// Deployments become Available without running a container.
//
// [Build] uses installed binaries or compiles them from Go modules, [Start] starts a cluster in a new directory, and
// [Cluster.Stop] removes it. Components can be killed, frozen, resumed and restarted individually, and [Cluster.Requests] returns what the API
// server has audited. A cluster does not outlive the process that started it, even if that process is killed.
package cluster
