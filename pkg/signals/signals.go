// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package signals has contexts for the two stages of a shutdown: no new work, and no more work.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

var setUp atomic.Bool

// SetupSignalHandler returns a context that is cancelled by the first SIGTERM or SIGINT. The second one ends the process
// at once with exit code 1. It panics when called a second time in a process, because only one of the two contexts could
// ever be cancelled.
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

// WithGracePeriod returns a context that is done one period after ctx is. Its cause is then an error that says so.
func WithGracePeriod(ctx context.Context, period time.Duration) (graceCtx context.Context, cancel func()) {
	graceCtx, cancelCause := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(period):
			cancelCause(fmt.Errorf("syncs that were still running %s after the shutdown had begun were cancelled", period))
		case <-graceCtx.Done():
		}
	})
	return graceCtx, func() {
		stop()
		cancelCause(nil)
	}
}
