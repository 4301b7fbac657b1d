// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// upstream is a server that records its requests and sends each element of events to one of its watches.
type upstream struct {
	lock   sync.Mutex
	seen   []string
	events chan string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.lock.Lock()
	u.seen = append(u.seen, r.Method+" "+r.URL.Path+" "+r.Proto)
	u.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !r.URL.Query().Has("watch") {
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1"}`)
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-u.events:
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (u *upstream) requests() []string {
	u.lock.Lock()
	defer u.lock.Unlock()
	return slices.Clone(u.seen)
}

// start starts an upstream, a proxy in front of it, and a client of the proxy.
func start(t *testing.T) (*upstream, *Proxy, *http.Client) {
	t.Helper()
	u := &upstream{events: make(chan string)}
	server := httptest.NewUnstartedServer(u)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	p, err := Start(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	return u, p, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
}

const path = "/apis/apps/v1/namespaces/default/deployments"

func TestRequestsAreForwardedAndRecorded(t *testing.T) {
	u, p, client := start(t)
	response, err := client.Post(p.server.URL+path, "application/json", nil)
	if err != nil || response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
		t.Fatalf("got response %v, error %v", response, err)
	}
	if got := u.requests(); len(got) != 1 || got[0] != "POST "+path+" HTTP/2.0" {
		t.Errorf("the server got requests %q", got)
	}
	requests := p.Requests()
	if len(requests) != 1 || requests[0].Verb != "create" || requests[0].Resource != "deployments" || !requests[0].Succeeded() {
		t.Errorf("recorded requests: %+v", requests)
	}
}

func TestFaultOnNthRequest(t *testing.T) {
	for name, test := range map[string]struct {
		fault   Fault
		code    int // 0 if there is no response
		applied int
	}{
		"rejected":           {Reject(http.StatusConflict, metav1.StatusReasonConflict), http.StatusConflict, 2},
		"failed after apply": {FailAfterApply(http.StatusGatewayTimeout, metav1.StatusReasonTimeout), http.StatusGatewayTimeout, 3},
		"request dropped":    {DropRequest, 0, 2},
		"response dropped":   {DropResponse, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			u, p, client := start(t)
			p.SetRules(Rule{Name: name, Verbs: []string{"create"}, Resources: []string{"deployments"}, Nth: 2, Fault: test.fault})
			for i := range 3 {
				code := 0
				if response, err := client.Post(p.server.URL+path, "", nil); err == nil {
					code = response.StatusCode
				}
				want := http.StatusOK
				if i == 1 {
					want = test.code
				}
				if code != want {
					t.Errorf("response code of request %d = %d, want %d", i+1, code, want)
				}
			}
			if got := len(u.requests()); got != test.applied {
				t.Errorf("%d requests were applied, want %d", got, test.applied)
			}
			if got := p.Injected()[name]; got != 1 {
				t.Errorf("%d faults were counted, want 1", got)
			}
		})
	}
}

func TestSeedIsDeterministic(t *testing.T) {
	var first string
	for range 2 {
		_, p, client := start(t)
		p.SetRules(Rule{Probability: 0.5, Fault: Reject(http.StatusInternalServerError, metav1.StatusReasonInternalError)})
		var codes strings.Builder
		for range 20 {
			response, err := client.Get(p.server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&codes, response.StatusCode, " ")
		}
		if first == "" {
			first = codes.String()
		}
		if codes.String() != first || !strings.Contains(first, "200") || !strings.Contains(first, "500") {
			t.Errorf("response codes with the same seed: %s and %s", first, codes.String())
		}
	}
}

func TestWatchFaults(t *testing.T) {
	u, p, client := start(t)
	watch := func(query string) (int, *io.PipeReader) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.URL+path+"?watch=1"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		reader, writer := io.Pipe()
		go func() {
			_, err := io.Copy(writer, response.Body)
			writer.CloseWithError(err)
		}()
		return response.StatusCode, reader
	}
	next := func(events io.Reader) string {
		var line string
		fmt.Fscanln(events, &line)
		return line
	}

	_, events := watch("&sendInitialEvents=true")
	u.events <- "first"
	if got := next(events); got != "first" {
		t.Fatalf("the watch delivered %q", got)
	}
	u.events <- "second"
	if got := next(events); got != "second" {
		t.Fatalf("the watch delivered %q", got)
	}

	p.CloseConnections()
	if got := next(events); got != "" {
		t.Errorf("the watch delivered %q instead of ending", got)
	}
	if code, _ := watch("&resourceVersion=1"); code != http.StatusOK {
		t.Errorf("the next watch got %d, want 200", code)
	}
}
