// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package signals handles SIGTERM and SIGINT in two stages: the first one drains, the second one exits.
package signals

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

var setUp atomic.Bool

// SetupSignalHandler returns a context that is cancelled by the first SIGTERM or SIGINT. The second one ends
// the process at once with exit code 1. It panics if it is called twice, because the two would share signals.
func SetupSignalHandler() context.Context {
	if !setUp.CompareAndSwap(false, true) {
		panic("signals: SetupSignalHandler was called twice in one process; pass on the context of the first call")
	}
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		cancel()
		<-received
		os.Exit(1)
	}()
	return ctx
}
