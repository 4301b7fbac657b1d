// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster builds and runs a local Kubernetes for development and tests: a real control plane (etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler) on random ports of 127.0.0.1, with kwok playing the nodes, so
// that Pods become Ready and Deployments Available without a single container.
//
// [Build] compiles it from Go modules, [Start] starts one in a fresh directory, and [Cluster.Stop] removes it. Components
// can be killed, frozen, resumed and restarted one by one, and the requests that the API server got can be read back. When
// the process that started a cluster dies, however it dies, the cluster dies with it and leaves nothing behind.
package cluster
