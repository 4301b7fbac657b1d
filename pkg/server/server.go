// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves health checks and metrics.
package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Health returns a handler for /livez and /healthz, which call live, and for /readyz, which calls ready.
func Health(live, ready func() error) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"/livez": live, "/healthz": live, "/readyz": ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, "ok")
		})
	}
	return mux
}

// Metrics returns a handler for /metrics.
func Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mux
}

// Start serves handler at the address of a flag, such as ":8080", until the process exits: probes and metrics
// are served during the shutdown, too. It does nothing if address is empty.
func Start(ctx context.Context, flag, address string, handler http.Handler) error {
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s=%s: cannot listen on the address; choose another one: %w", flag, address, err)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "address", listener.Addr().String())
	logger.V(2).Info("Serving")
	server := &http.Server{ // The limits keep a slow client from holding a connection forever.
		Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	go func() { logger.Error(server.Serve(listener), "HTTP server failed") }()
	return nil
}
