// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves health checks and metrics.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Limits that keep a slow client from holding a connection for ever.
const (
	readTimeout    = 5 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Check is a named health check.
type Check struct {
	Name string
	// Check returns an error if the process is not healthy.
	Check func(*http.Request) error
}

// Health returns a handler for /livez and /healthz with the checks of live, and for /readyz with the checks of ready. If a check fails,
// the status is 500. The body has a line for each check if one fails or the query has ?verbose, and is "ok" otherwise.
func Health(live, ready []Check) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", checks{"livez", live})
	mux.Handle("GET /healthz", checks{"healthz", live})
	mux.Handle("GET /readyz", checks{"readyz", ready})
	return mux
}

type checks struct {
	name   string
	checks []Check
}

// ServeHTTP implements http.Handler.
func (c checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var lines strings.Builder
	lines.WriteString("[+]ping ok\n")
	verdict, status := "passed", http.StatusOK
	for _, check := range c.checks {
		if err := check.Check(r); err != nil {
			fmt.Fprintf(&lines, "[-]%s failed: %v\n", check.Name, err)
			verdict, status = "failed", http.StatusInternalServerError
		} else {
			fmt.Fprintf(&lines, "[+]%s ok\n", check.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, verbose := r.URL.Query()["verbose"]; !verbose && status == http.StatusOK {
		fmt.Fprint(w, "ok")
		return
	}
	fmt.Fprintf(w, "%s%s check %s\n", &lines, c.name, verdict)
}

// Metrics returns a handler for /metrics.
func Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mux
}

// Start serves handler at an address, such as ":8080" or "127.0.0.1:8080", until stop is called, which closes all connections. It serves
// nothing if address is empty. The error says that the address cannot be used.
func Start(ctx context.Context, address string, handler http.Handler) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the address cannot be used, choose another one: %w", err)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "address", listener.Addr().String())
	logger.V(2).Info("Serving")
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Serving failed")
		}
	}()
	return func() {
		server.Close()
		<-done
	}, nil
}
