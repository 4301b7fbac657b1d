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
	passes := Check{"leader-election", func(*http.Request) error { return nil }}
	fails := Check{"informer-sync", func(*http.Request) error { return errors.New("not yet") }}
	handler := Health([]Check{passes}, []Check{passes, fails})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/livez":           {http.StatusOK, "ok"},
		"/healthz":         {http.StatusOK, "ok"},
		"/livez?verbose":   {http.StatusOK, "[+]ping ok\n[+]leader-election ok\nlivez check passed\n"},
		"/healthz?verbose": {http.StatusOK, "[+]ping ok\n[+]leader-election ok\nhealthz check passed\n"},
		"/readyz": {http.StatusInternalServerError,
			"[+]ping ok\n[+]leader-election ok\n[-]informer-sync failed: not yet\nreadyz check failed\n"},
		"/metrics": {http.StatusNotFound, "404 page not found\n"},
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want.status || recorder.Body.String() != want.body {
			t.Errorf("%s is answered with %d %q, want %d %q", path, recorder.Code, recorder.Body, want.status, want.body)
		}
	}
}

func TestMetricsServesProfilesOnlyIfWanted(t *testing.T) {
	for profiling, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		recorder := httptest.NewRecorder()
		Metrics(profiling).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1", nil))
		if recorder.Code != want {
			t.Errorf("profiling %v: a profile is answered with %d, want %d", profiling, recorder.Code, want)
		}
		recorder = httptest.NewRecorder()
		Metrics(profiling).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(recorder.Body.String(), "go_goroutines") || !strings.Contains(recorder.Body.String(), "process_") {
			t.Error("/metrics does not hold the metrics of Go and of the process")
		}
	}
}

func TestServeUntilClose(t *testing.T) {
	address := freeAddress(t)
	server, err := Serve(t.Context(), address, Metrics(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(t.Context(), address, Metrics(true)); err == nil {
		t.Error("an address in use is served a second time")
	}
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("/metrics is answered with %v (%v)", response, err)
	}
	server.Close()
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the address is still served after Close")
	}
}

func TestASlowClientIsCutOff(t *testing.T) {
	address := freeAddress(t)
	server, err := Serve(t.Context(), address, Health(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET /livez HTTP/1.1\r\nHost: a\r\n"); err != nil { // Which never ends.
		t.Fatal(err)
	}
	// Close returns only when the server has let go; a read returns when it has cut the connection.
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
