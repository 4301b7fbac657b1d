// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !without_etcd

package main

import (
	"os"

	etcd "go.etcd.io/etcd/server/v3/etcdmain"
)

func init() {
	components["etcd"] = func() { etcd.Main(os.Args) }
}
