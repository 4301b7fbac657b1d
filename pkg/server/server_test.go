// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	handler := Health(func() error { return nil }, func() error { return errors.New("not yet") })
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/livez":   {http.StatusOK, "ok"},
		"/healthz": {http.StatusOK, "ok"},
		"/readyz":  {http.StatusInternalServerError, "not yet\n"},
		"/metrics": {http.StatusNotFound, "404 page not found\n"},
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want.status || recorder.Body.String() != want.body {
			t.Errorf("GET %s = %d %q, want %d %q", path, recorder.Code, recorder.Body, want.status, want.body)
		}
	}
}

func TestMetrics(t *testing.T) {
	recorder := httptest.NewRecorder()
	Metrics().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(recorder.Body.String(), "go_goroutines") || !strings.Contains(recorder.Body.String(), "process_") {
		t.Error("/metrics lacks the metrics of Go or of the process")
	}
}

func TestStart(t *testing.T) {
	address := freeAddress(t)
	if err := Start(t.Context(), "-flag", address, Metrics()); err != nil {
		t.Fatal(err)
	}
	if err := Start(t.Context(), "-flag", address, Metrics()); err == nil {
		t.Error("Start() returned no error for an address in use")
	}
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("GET /metrics = %v (%v)", response, err)
	}
}

func TestStartWithoutAddress(t *testing.T) {
	if err := Start(t.Context(), "-flag", "", nil); err != nil {
		t.Fatal(err)
	}
}

func TestReadTimeout(t *testing.T) {
	address := freeAddress(t)
	if err := Start(t.Context(), "-flag", address, Health(func() error { return nil }, nil)); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET /livez HTTP/1.1\r\nHost: a\r\n"); err != nil { // An unfinished request.
		t.Fatal(err)
	}
	// The read returns when the server has closed the connection, after the read timeout of Start.
	if _, err := io.ReadAll(client); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
