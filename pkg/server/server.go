// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves health checks, metrics and profiles.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// What a client may take at most: a slow one must not hold a connection for ever.
const (
	readTimeout    = 5 * time.Second
	writeTimeout   = time.Minute // A CPU profile takes half of it.
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Check is one reason to be healthy or not.
type Check struct {
	Name string
	// Check returns nil, or what is wrong.
	Check func(*http.Request) error
}

// Health returns a handler for /livez and /healthz, which say whether the checks of live pass, and for /readyz, which says
// so of those of ready. The answer is "ok" or, if a check fails or the query has ?verbose, a line for each check; the status
// is 500 if one fails.
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

// Metrics returns a handler for /metrics, in the formats that Prometheus understands, and with profiling also for
// /debug/pprof/, in the form that `go tool pprof` reads.
func Metrics(profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	if profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// Server serves one handler at one address.
type Server struct {
	server *http.Server
	done   chan struct{}
}

// Serve starts to serve handler at address, such as ":8080" or "127.0.0.1:8080", until Close. The error says that the address
// cannot be listened at.
func Serve(ctx context.Context, address string, handler http.Handler) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{}), server: &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Serving", "address", listener.Addr().String())
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Serving failed", "address", address)
		}
	}()
	return s, nil
}

// Close ends all connections and returns when nothing is served any more.
func (s *Server) Close() {
	s.server.Close()
	<-s.done
}
