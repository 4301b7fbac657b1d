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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// upstream is a server that remembers what it was asked, and sends a line to all watches for each element of events.
type upstream struct {
	lock   sync.Mutex
	asked  []string
	events chan string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.lock.Lock()
	u.asked = append(u.asked, r.Method+" "+r.URL.Path+" "+r.Proto)
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
	return slices.Clone(u.asked)
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

func TestRequestsPassOverHTTP2AndAreWrittenDown(t *testing.T) {
	u, p, client := start(t)
	response, err := client.Post(p.URL()+path, "application/json", nil)
	if err != nil || response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %v (%v)", response, err)
	}
	if got := u.requests(); len(got) != 1 || got[0] != "POST "+path+" HTTP/2.0" {
		t.Errorf("the server was asked %q", got)
	}
	requests := p.Requests()
	if len(requests) != 1 || requests[0].Verb != "create" || requests[0].Resource != "deployments" || requests[0].Namespace != "default" ||
		requests[0].Code != http.StatusOK || requests[0].Object == nil {
		t.Errorf("written down is %+v", requests)
	}
}

func TestTheNthRequestAloneIsStruck(t *testing.T) {
	for name, test := range map[string]struct {
		fault   Fault
		code    int // 0 if there is no answer
		applied int
	}{
		"refused":     {Refuse(http.StatusConflict, metav1.StatusReasonConflict), http.StatusConflict, 2},
		"misreported": {Misreport(http.StatusGatewayTimeout, metav1.StatusReasonTimeout), http.StatusGatewayTimeout, 3},
		"dropped":     {Drop, 0, 2},
		"answer lost": {LoseAnswer, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			u, p, client := start(t)
			p.SetRules(Rule{Name: name, Verbs: []string{"create"}, Resources: []string{"deployments"}, Nth: 2, Fault: test.fault})
			for i := range 3 {
				code := 0
				if response, err := client.Post(p.URL()+path, "", nil); err == nil {
					code = response.StatusCode
				}
				want := http.StatusOK
				if i == 1 {
					want = test.code
				}
				if code != want {
					t.Errorf("request %d is answered with %d, want %d", i+1, code, want)
				}
			}
			if got := len(u.requests()); got != test.applied {
				t.Errorf("%d requests were applied, want %d", got, test.applied)
			}
			if got := p.Injected()[name]; got != 1 {
				t.Errorf("%d faults are counted", got)
			}
		})
	}
}

func TestASeedChoosesTheSameRequestsAgain(t *testing.T) {
	var first string
	for range 2 {
		_, p, client := start(t)
		p.SetRules(Rule{Share: 0.5, Fault: Refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)})
		var codes strings.Builder
		for range 20 {
			response, err := client.Get(p.URL() + path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&codes, response.StatusCode, " ")
		}
		if first == "" {
			first = codes.String()
		}
		if codes.String() != first || !strings.Contains(first, "200") || !strings.Contains(first, "500") {
			t.Errorf("the answers are %s and %s", first, codes.String())
		}
	}
}

func TestWatchesStandStillAreCutAndLagBehind(t *testing.T) {
	u, p, client := start(t)
	watch := func(query string) (int, *io.PipeReader) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+path+"?watch=1"+query, nil)
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
		t.Fatalf("a watch delivers %q", got)
	}
	p.Freeze("deployments")
	u.events <- "second"
	arrived := make(chan string)
	go func() { arrived <- next(events) }()
	select {
	case got := <-arrived:
		t.Errorf("a watch that stands still delivers %q", got)
	case <-time.After(100 * time.Millisecond): // Without the freeze it takes less than one.
	}
	p.Thaw()
	if got := <-arrived; got != "second" {
		t.Errorf("after the thaw the watch delivers %q", got)
	}

	p.Tape("deployments")
	_, old := watch("&sendInitialEvents=true")
	if got := next(old) + next(old); got != "firstsecond" {
		t.Errorf("a watch that lags behind delivers %q", got)
	}
	p.CatchUp()
	if got := next(old); got != "" {
		t.Errorf("a watch that has to catch up delivers %q instead of its end", got)
	}

	p.CutWatches("deployments")
	if got := next(events); got != "" {
		t.Errorf("a watch that is cut delivers %q", got)
	}
	p.MendWatches(true)
	if code, _ := watch("&resourceVersion=1"); code != http.StatusGone {
		t.Errorf("a watch from long ago is answered with %d", code)
	}
	if code, _ := watch("&sendInitialEvents=true"); code != http.StatusOK {
		t.Errorf("a list after that is answered with %d", code)
	}
	if code, _ := watch("&resourceVersion=2"); code != http.StatusOK {
		t.Errorf("a watch from that list is answered with %d", code)
	}
}
